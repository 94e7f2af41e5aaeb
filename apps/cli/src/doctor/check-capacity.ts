/** How many sandboxes this machine can hold beside what runs on it now, and what ends first. */
export const checkCapacity = async (): Promise<{ name: string; ok: boolean; message: string }> => {
  const { describeRoom, openMachine } = await import('@boxoffice/agent')
  const { count, message } = describeRoom(openMachine()())
  return count > 0
    ? { name: 'capacity', ok: true, message }
    : { name: 'capacity', ok: false, message: `${message}; end what uses them, or raise the limit` }
}
