/** The user whose password is checked. */
export interface PasswordOwner {
  email: string
  name: string
}

const shortestPassword = 12
export const longestPassword = 200

/** The top words of published lists of leaked passwords, and words that users append to reach a length. */
const commonWords =
  'password passwort passwd secret letmein welcome login admin administrator root master default changeme test demo guest user access iloveyou sunshine princess dragon monkey football baseball superman batman pokemon starwars trustno1 shadow michael jordan charlie summer winter spring autumn january february march april june july august september october november december monday friday hello whatever inlay'
    .split(' ')
    .concat('correct horse battery staple', 'correcthorsebatterystaple')
    .sort((one, other) => other.length - one.length)

const rows = [
  'abcdefghijklmnopqrstuvwxyz',
  '01234567890',
  '!@#$%^&*()_+',
  'qwertyuiop',
  'qwertzuiop',
  'azertyuiop',
  'asdfghjkl',
  'zxcvbnm',
]
const sequences = [...rows, ...rows.map((row) => [...row].reverse().join(''))]
/** Shorter sequences, such as `tre`, occur in many words. */
const shortestSequence = 4

const leftAtLeast = 6

/**
 * Returns why a password is too easy to guess and what to do, or undefined. Guessable parts are removed, and the rest
 * must be long enough: a rule about character classes would accept `Password1234!`.
 */
export function passwordProblem(password: string, owner?: PasswordOwner): string | undefined {
  if ([...password].length < shortestPassword) return `Use at least ${shortestPassword} characters.`
  if (password.length > longestPassword) return `Use at most ${longestPassword} characters.`
  const text = password.normalize('NFKC').toLowerCase()
  if (new Set(text).size < 5 || isPeriodic(text)) {
    return 'This password repeats itself, so it is easy to guess. Use several unrelated words.'
  }
  if (leftOf(text, owner ? personalWords(owner) : []) >= leftAtLeast) return undefined
  const isPersonal = leftOf(text, []) >= leftAtLeast
  return isPersonal
    ? 'This password is mostly your name or email address, so it is easy to guess. Use several unrelated words.'
    : 'This password is made of common words or sequences, so it is easy to guess. Use several unrelated words.'
}

/** Whether the text repeats one part, such as `blorpblorpblo`. */
function isPeriodic(text: string): boolean {
  for (let period = 1; period * 2 <= text.length; period += 1) {
    if (text.slice(period) === text.slice(0, -period)) return true
  }
  return false
}

/** Number of characters left after removing the words and sequences that attackers try first. */
function leftOf(text: string, words: readonly string[]): number {
  const withoutSequences = removeSequences(text)
  const read = readSubstitutes(withoutSequences)
  const without = (from: string) =>
    [...words, ...commonWords]
      .reduce((left, word) => left.replaceAll(word, ' '), from)
      .replace(/(19|20)\d\d/g, '')
      .replace(/(.)\1{2,}/gsu, '$1')
      .replace(/\s/gu, '').length
  return Math.min(without(withoutSequences), without(read))
}

/** `P@ssw0rd` is as easy to guess as `password`. */
const readSubstitutes = (text: string): string => text.replace(/[@013457$!]/g, (sign) => substitutes[sign] ?? sign)
const substitutes: Record<string, string> = {
  '@': 'a',
  0: 'o',
  1: 'i',
  3: 'e',
  4: 'a',
  5: 's',
  7: 't',
  $: 's',
  '!': 'i',
}

function removeSequences(text: string): string {
  let kept = ''
  for (let at = 0; at < text.length; ) {
    const length = Math.max(...sequences.map((sequence) => commonLength(text, at, sequence)))
    if (length >= shortestSequence) at += length
    else kept += text[at++]
  }
  return kept
}

/** Length of the part of `text`, starting at `at`, that occurs in `sequence`. */
function commonLength(text: string, at: number, sequence: string): number {
  const start = sequence.indexOf(text[at] ?? '')
  if (start < 0) return 0
  let length = 1
  while (start + length < sequence.length && text[at + length] === sequence[start + length]) length += 1
  return length
}

const personalWords = ({ email, name }: PasswordOwner): string[] =>
  [email, ...email.split('@'), ...`${email} ${name}`.split(/[^\p{L}\p{N}]+/u)]
    .map((word) => word.normalize('NFKC').toLowerCase())
    .filter((word) => word.length >= 3)
    .sort((one, other) => other.length - one.length)

/** For forms that set a password. */
export const newPasswordField = (name: string, label: string, { autofocus = false } = {}): string =>
  `<label>${label} <input name="${name}" type="password" autocomplete="new-password" required minlength="${shortestPassword}" maxlength="${longestPassword}"${autofocus ? ' autofocus' : ''}></label>`
