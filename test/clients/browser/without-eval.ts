// Before the SDK loads: Zod tries whether it may make code, which the page's policy forbids and reports.
Object.assign(globalThis, { __zod_globalConfig: { jitless: true } })
