/** What a client writes to the agent, and the model reads. */
export const writeTask = ({ tokens, everyMs }: Task): string => `Write ${tokens} tokens, one every ${everyMs} ms.`

export interface Task {
  tokens: number
  everyMs: number
}

export function readTask(message: string): Task {
  const [, tokens, everyMs] = /Write (\d+) tokens, one every (\d+) ms/.exec(message) ?? []
  return { tokens: Number(tokens), everyMs: Number(everyMs) }
}

/** Microseconds of a clock that all processes share. */
export const now = (): number => Number(process.hrtime.bigint() / 1000n)

export const writeToken = (): string => ` @${now().toString(36)}.`

const token = /@([0-9a-z]+)\./g

/** Returns a function that finds tokens in a stream of text, and passes on when each was sent. */
export function createTokenReader(found: (sentAt: number) => void): (text: string) => void {
  let rest = ''
  return (text) => {
    const all = rest + text
    token.lastIndex = 0
    let end = 0
    for (let match = token.exec(all); match; match = token.exec(all)) {
      found(Number.parseInt(match[1] ?? '', 36))
      end = token.lastIndex
    }
    const begun = all.indexOf('@', end)
    rest = begun === -1 ? '' : all.slice(begun)
  }
}
