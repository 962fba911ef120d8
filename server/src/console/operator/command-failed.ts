/** An error that the operator can fix: only its message is printed, without a stack trace. */
export class CommandFailed extends Error {
  override name = 'CommandFailed'
}
