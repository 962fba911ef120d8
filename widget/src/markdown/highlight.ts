/** Its kind is empty for everything that isn't highlighted. */
export type CodePiece = readonly [kind: (typeof kinds)[number] | '', text: string]

/** Longer code isn't highlighted, because it's rendered again with each streamed word. */
const maxHighlighted = 20_000

const words = (list: string) => `\\b(?:${list.replaceAll(' ', '|')})\\b`
const quoted = `"(?:[^"\\\\\\n]|\\\\[\\s\\S])*"?|'(?:[^'\\\\\\n]|\\\\[\\s\\S])*'?`
const slashComments = '//[^\\n]*|/\\*[\\s\\S]*?(?:\\*/|$)'
const hashComments = '(?<![^\\s;(])#[^\\n]*'
const number = '(?<![\\w.])(?:0[xob][\\da-fA-F_]+|\\d[\\d_]*(?:\\.\\d+)?(?:e[+-]?\\d+)?)n?'

/** In this order, the first that matches wins. */
const kinds = ['comment', 'name', 'string', 'keyword', 'number'] as const

interface Grammar {
  comment?: string
  string?: string
  keyword?: string
  name?: string
  isCaseless?: true
}

const scripts: Grammar = {
  comment: slashComments,
  string: `${quoted}|\`(?:[^\`\\\\]|\\\\[\\s\\S])*\`?`,
  keyword: words(
    'abstract as async await bool boolean break byte case catch char class const continue default defer delete do double else enum export extends false final finally float fn for from func function go if implements import in instanceof int interface let long loop match mod mut namespace new nil null of override package private protected pub public readonly return satisfies self static string struct super switch this throw throws trait true try type typeof undefined use using var void where while yield',
  ),
}
const grammars: Record<string, Grammar> = {
  'js javascript jsx mjs ts typescript tsx java c cpp c++ h cs csharp go rust rs swift kotlin kt php dart scala':
    scripts,
  'json json5 jsonc': { ...scripts, name: '"(?:[^"\\\\\\n]|\\\\.)*"(?=\\s{0,9}:)', keyword: words('true false null') },
  'py python': {
    comment: '#[^\\n]*',
    string: `[rbf]?(?:"""[\\s\\S]*?(?:"""|$)|'''[\\s\\S]*?(?:'''|$)|${quoted})`,
    keyword: words(
      'and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return self True try while with yield',
    ),
  },
  'rb ruby': {
    comment: '#[^\\n]*',
    string: quoted,
    keyword: words(
      'begin class def do else elsif end ensure false if in module nil require rescue return self true unless while yield',
    ),
  },
  'sh bash shell zsh console': {
    comment: hashComments,
    string: quoted,
    keyword: words('case do done elif else esac exit export fi for function if in local return set source then while'),
    name: '\\$\\w+|\\$\\{[^}\\n]*\\}|(?<=\\s)--?[a-z][\\w-]*',
  },
  'yaml yml toml ini dockerfile env': {
    comment: hashComments,
    string: quoted,
    keyword: words('true false null'),
    name: '(?<=^|\\n)[ \\t]{0,40}(?:- )?\\w[\\w.-]{0,60}(?= {0,9}[:=])',
  },
  'sql postgres postgresql mysql sqlite': {
    isCaseless: true,
    comment: '--[^\\n]*|/\\*[\\s\\S]*?(?:\\*/|$)',
    string: "'(?:[^']|'')*'?",
    keyword: words(
      'add all alter and as asc begin between by case check column commit constraint create cross default delete desc distinct drop else end exists false foreign from full group having if in index inner insert into is join key left like limit not null offset on or order outer primary references returning right rollback select set table then true union unique update using values view when where with',
    ),
  },
  'html xml svg vue svelte': {
    isCaseless: true,
    comment: '<!--[\\s\\S]*?(?:-->|$)',
    string: '(?<==)(?:"[^"]*"?|\'[^\']*\'?)',
    keyword: '</?[a-z][\\w:-]*|/?>',
    name: '(?<=\\s)[a-z@:][\\w:.-]*(?==)',
  },
  'css scss less': {
    comment: '/\\*[\\s\\S]*?(?:\\*/|$)',
    string: quoted,
    keyword: '@[\\w-]+|!important',
    name: '(?<=[{;\\s])-{0,2}[a-z][\\w-]{0,60}(?= {0,3}:\\s)',
  },
}
const grammarOf = new Map(
  Object.entries(grammars).flatMap(([names, grammar]) => names.split(' ').map((name) => [name, grammar] as const)),
)
const patterns = new Map<Grammar, RegExp>()

function patternOf(grammar: Grammar): RegExp {
  const known = patterns.get(grammar)
  if (known) return known
  const source = kinds.map((kind) => `(${kind === 'number' ? number : (grammar[kind] ?? '(?!)')})`).join('|')
  const pattern = new RegExp(source, grammar.isCaseless ? 'gi' : 'g')
  patterns.set(grammar, pattern)
  return pattern
}

/** Splits code into pieces, whose texts together are the code. Only marks what a reader's eye looks for. */
export function highlight(code: string, language: string): CodePiece[] {
  const grammar = grammarOf.get(language.toLowerCase())
  if (!grammar || code.length > maxHighlighted) return [['', code]]
  const pieces: CodePiece[] = []
  let end = 0
  for (const match of code.matchAll(patternOf(grammar))) {
    if (match.index > end) pieces.push(['', code.slice(end, match.index)])
    const kind = kinds.find((_, index) => match[index + 1] !== undefined)
    pieces.push([kind ?? '', match[0]])
    end = match.index + match[0].length
  }
  if (end < code.length) pieces.push(['', code.slice(end)])
  return pieces
}
