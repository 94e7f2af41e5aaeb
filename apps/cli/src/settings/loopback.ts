/** Whether only this machine can reach what listens there. */
export const isLoopbackName = (host: string): boolean => host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
