/** What a model should know of paths, for the `systemPrompt` of an agent. */
export const SANDBOX_PROMPT = `Commands of the execute tool start in /workspace. Files belong below /workspace; /tmp is for temporary ones.
The file tools take other absolute paths as paths below /workspace: /notes.txt is /workspace/notes.txt. Commands do not: give them the path below /workspace.`
