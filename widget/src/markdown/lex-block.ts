import { Lexer, type MarkedToken, type Token, Tokenizer, type Tokens } from 'marked'

/** Longer blocks, and blocks with more spaces in a row, are shown as they are. */
const maxLength = 64 * 1024
const gap = /[ \t]{500}/
/** Quotes and lists inside each other, and emphasis and links inside each other. */
const maxDepth = 20
/**
 * Characters that the lexer may look at, per character of the block. Ordinary text needs a tenth. Without a limit, the lexer's time grows with the square of the length for unclosed syntax, and exponentially for nested quotes.
 */
const maxWork = 150
const smallestBudget = 2000
/** Each attempt to find syntax costs as much as this many characters. */
const workPerAttempt = 50
/** A quote or a list item costs more the deeper it is. */
const workPerLevel = 100
/** Looking for the end of emphasis costs more than other syntax. */
const workPerDelimiter = 8
/** An empty table cell needs one character or none, but takes time to render. */
const workPerCell = 100

/** Tags are shown as text, so their attributes don't matter. The lexer's own rule may read to the end of the text. */
const tag = /^<(?![a-z][a-z\d+.-]*:|[^\s<>]*@)[/!?a-z][^<>]*>/i
const { block, inline } = Lexer.rules
const rules = { block: block.gfm, inline: { ...inline.breaks, tag } }

class TooComplex extends Error {}

/** Reads a block of Markdown. Returns nothing if that would take too long. */
export function lexBlock(source: string): MarkedToken[] | undefined {
  if (source.length > maxLength || gap.test(source)) return undefined
  try {
    return new BoundedLexer(new BoundedTokenizer(source.length)).lex(source) as MarkedToken[]
  } catch (error) {
    if (error instanceof TooComplex) return undefined
    throw error
  }
}

class BoundedLexer extends Lexer {
  #depth = 0
  #bounds: BoundedTokenizer

  constructor(tokenizer: BoundedTokenizer) {
    super({ gfm: true, breaks: true, tokenizer })
    this.#bounds = tokenizer
    tokenizer.rules = { ...tokenizer.rules, ...rules }
    // Without definitions, the lexer doesn't search for references to them.
    Object.assign(this.tokens, { links: undefined })
  }

  override blockTokens<List extends Token[]>(src: string, tokens?: List, isClipped?: boolean): List {
    this.#bounds.spend(workPerLevel * (this.#depth + 1))
    return this.#nest(src, () => super.blockTokens(src, tokens, isClipped) as List)
  }

  override inlineTokens(src: string, tokens?: Token[]): Token[] {
    return this.#nest(src, () => super.inlineTokens(src, tokens))
  }

  #nest<Result>(src: string, lex: () => Result): Result {
    this.#bounds.spend(src.length)
    this.#depth += 1
    if (this.#depth > maxDepth) throw new TooComplex()
    const result = lex()
    this.#depth -= 1
    return result
  }
}

class BoundedTokenizer extends Tokenizer {
  #budget: number

  constructor(length: number) {
    super()
    this.#budget = smallestBudget + maxWork * length
  }

  spend(work: number): void {
    this.#budget -= work + workPerAttempt
    if (this.#budget < 0) throw new TooComplex()
  }

  /** The lexer tries this first at each block. */
  override space(src: string): Tokens.Space | undefined {
    this.spend(src.length)
    return super.space(src)
  }

  /** The lexer tries this first at each piece of text. Then it may look at the whole word, in search of addresses. */
  override escape(src: string): Tokens.Escape | undefined {
    this.spend(src.search(/\s|$/))
    return super.escape(src)
  }

  override link(src: string): Tokens.Link | Tokens.Image | undefined {
    return /^!?\[/.test(src) ? this.#search(src, super.link(src)) : undefined
  }

  override codespan(src: string): Tokens.Codespan | undefined {
    return src.startsWith('`') ? this.#search(src, super.codespan(src)) : undefined
  }

  override emStrong(src: string, masked: string, previous?: string): Tokens.Em | Tokens.Strong | undefined {
    return /^[*_]/.test(src) ? this.#search(src, super.emStrong(src, masked, previous), workPerDelimiter) : undefined
  }

  override del(src: string, masked: string, previous?: string): Tokens.Del | undefined {
    return src.startsWith('~') ? this.#search(src, super.del(src, masked, previous), workPerDelimiter) : undefined
  }

  /** The lexer has looked at the text up to the end of the syntax, or at all of it. */
  #search<Found extends Token>(src: string, found: Found | undefined, factor = 1): Found | undefined {
    this.spend(factor * (found ?? { raw: src }).raw.length)
    return found
  }

  override tag(src: string): Tokens.Tag | undefined {
    const [raw] = tag.exec(src) ?? []
    return raw ? { type: 'html', raw, text: raw, block: false, inLink: false, inRawBlock: false } : undefined
  }

  override table(src: string): Tokens.Table | undefined {
    const [header = '', alignment = ''] = src.split('\n', 2)
    if (!/^[ |:-]*-[ |:-]*$/.test(alignment)) return undefined
    this.spend(workPerCell * header.split('|').length * src.split('\n').length)
    return super.table(src)
  }

  /** Definitions are shown, and references to them stay text: a block can't depend on another one. */
  override def(): undefined {}
  override reflink(): undefined {}

  /** The lexer's own rule takes a time that grows with the square of the address's length. */
  override url(src: string): Tokens.Link | undefined {
    const [found = ''] = /^(?:https?:\/\/|www\.)[^\s<]{1,2000}/i.exec(src) ?? []
    const raw = found
      ? trimAddress(found)
      : (/^[\w.+-]{1,64}@[a-z\d-]{1,63}(?:\.[a-z\d-]{1,63})+/i.exec(src)?.[0] ?? '')
    if (!raw) return undefined
    const href = !found ? `mailto:${raw}` : /^www/i.test(raw) ? `https://${raw}` : raw
    return { type: 'link', raw, text: raw, href, autolink: true, tokens: [{ type: 'text', raw, text: raw }] }
  }
}

/** Leaves out punctuation that belongs to the sentence, as in "(see https://example.com/a)." */
function trimAddress(address: string): string {
  let excess = address.split(')').length - address.split('(').length
  let end = address.length
  for (; end > 0; end--) {
    const last = address.charAt(end - 1)
    if (last === ')' && excess > 0) excess -= 1
    else if (!/[?!.,:;*_'"~]/.test(last)) break
  }
  return address.slice(0, end)
}
