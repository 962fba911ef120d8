/** Something the operator can put right: its message is all they need to see. */
export class CommandFailed extends Error {
  override name = 'CommandFailed'
}
