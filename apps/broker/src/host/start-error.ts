/** The broker cannot start. The message names the setting or file and what to do; it is meant for whoever typed the command. */
export class StartError extends Error {
  override readonly name = 'StartError'
}
