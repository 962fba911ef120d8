import fc from 'fast-check'
import { type ComponentClass, isValidElement, type VNode } from 'preact'
import { describe, expect, test } from 'vitest'
import { finishTail } from './finish-tail.ts'
import { highlight } from './highlight.ts'
import { lexBlock } from './lex-block.ts'
import { Markdown } from './markdown.ts'
import { splitBlocks } from './split-blocks.ts'

describe('a text is split', () => {
  test.each([
    ['at blank lines', 'a\nb\n\n\nc', ['a\nb\n\n\n', 'c']],
    ['around fenced code', 'a\n```\nb\n\nc\n```\nd', ['a\n', '```\nb\n\nc\n```\n', 'd']],
    ['not inside of longer fences', '````\n```\n\na\n````\n\nb', ['````\n```\n\na\n````\n\n', 'b']],
    ['not before the end of an open fence', '~~~\na\n\n```\n', ['~~~\na\n\n```\n']],
    ['not inside of a list', '- a\n\n- b\n\n  c\n\nd', ['- a\n\n- b\n\n  c\n\n', 'd']],
    ['between different lists', '- a\n\n1. b\n\n2. c', ['- a\n\n', '1. b\n\n2. c']],
    ['before a list below a paragraph', 'a\n- b\n\n- c', ['a\n', '- b\n\n- c']],
    ['not inside of indented code', '    a\n\n    b\n\nc', ['    a\n\n    b\n\n', 'c']],
    ['without the blank lines at its start', '\n\n a', [' a']],
  ])('%s', (_, text, expected) => {
    expect(splitBlocks(text).map(({ source }) => source)).toEqual(expected)
  })

  const lines = fc.constantFrom('a', '- b', '1. c', '2', '2. d', '  e', '    f', '```', '~~~', '', '> g', '# h', '---')
  const texts = fc.array(lines, { maxLength: 30 }).map((list) => list.join('\n'))

  test('in the same way, however it grew', () => {
    fc.assert(
      fc.property(texts, fc.array(fc.nat(60), { maxLength: 10 }), (text, steps) => {
        let known: ReturnType<typeof splitBlocks> = []
        let length = 0
        for (const step of [...steps, text.length]) {
          length = Math.min(length + step, text.length)
          known = splitBlocks(text.slice(0, length), known)
        }
        expect(known).toEqual(splitBlocks(text))
      }),
    )
  })

  test('and only its last two blocks change when it grows', () => {
    const text = Array.from({ length: 50 }, (_, index) => `Paragraph ${index}`).join('\n\n')
    const earlier = splitBlocks(text)
    const later = splitBlocks(`${text} and more\n\n- a`, earlier)
    expect(later.slice(0, 48).every((block, index) => block === earlier[index])).toBe(true)
  })
})

test('only the last block is rendered again when text is appended', () => {
  const strings = { code: '', copy: '', copied: '', selected: '', table: '', done: '', notDone: '' }
  const props = { text: 'a\n\nb', isStreaming: true, strings }
  const markdown = new Markdown(props)
  const blocksOf = (text: string) => {
    const wrapper = markdown.render({ ...props, text })
    if (!isValidElement(wrapper)) throw new Error('The component rendered no element.')
    return (wrapper.props as { children: VNode[] }).children
  }
  const earlier = blocksOf('a\n\nb\n\nc')
  const later = blocksOf('a\n\nb\n\nc d')
  const changed = later.filter(({ type, props: next }, index) => {
    const block = new (type as ComponentClass)(earlier[index]?.props as never)
    return block.shouldComponentUpdate?.(next, {}, {})
  })
  expect(later.map(({ key }) => key)).toEqual(earlier.map(({ key }) => key))
  expect(changed).toEqual([later[2]])
})

describe('hostile text', () => {
  const fill = (pattern: string, length = 60_000) => pattern.repeat(Math.ceil(length / pattern.length)).slice(0, length)
  const nestedList = Array.from({ length: 200 }, (_, level) => `${'  '.repeat(level)}- a`).join('\n')

  /** Each takes seconds or minutes, or overflows the stack, without limits. */
  test.each([
    ['quotes in quotes', '>'.repeat(10_000)],
    ['quotes with lines that continue them', `${'>'.repeat(18)}a\nb`],
    ['lists in lists', nestedList],
    ['lists in lists on one line', `${'- '.repeat(1000)}a`],
    ['lists and quotes on each line', fill(`${'> - '.repeat(9)}a\n`)],
    ['open brackets', fill('[')],
    ['open links', `${fill('[a](b')})`],
    ['open images', `${fill('![a](')})`],
    ['open titles of links', `${fill('[a](b "')})`],
    ['open emphasis', `${fill('*a ')}b*`],
    ['mixed emphasis', fill('*_a')],
    ['emphasis in emphasis', `${'*a '.repeat(10_000)}${'a* '.repeat(10_000)}`],
    ['open strikethrough', `${fill('~~a ')}b~~`],
    ['backticks of many lengths', Array.from({ length: 300 }, (_, index) => '`'.repeat(index + 1)).join(' ')],
    ['spaces', `a${fill(' ')}b`],
    ['lines of a list item', `- ${fill('a\n')}`],
    ['table cells that are not written', `${'|a'.repeat(5000)}\n${'|-'.repeat(5000)}\n${fill('|\n')}`],
    ['an address with punctuation', `https://a.example/${fill('!')}`],
    ['a long block', 'a'.repeat(70_000)],
  ])('%s: shown as it was written', (_, text) => {
    expect(lexBlock(text)).toBeUndefined()
  })

  test.each([
    ['words with an @', fill('a@ ')],
    ['comments', fill('<!--a> ')],
    ['open tags', fill('<a b=" ')],
    ['escapes', fill('\\* ')],
    ['character references', fill('&#65;')],
    ['short lines', fill('a\n')],
    ['short items', fill('- a\n')],
    ['a long table', `|a|b|\n|-|-|\n${fill('|a|b|\n')}`],
    ['key and value on each line', fill('**Key**: [a](https://b.example) and `c`\n', 8000)],
    ['open fences', fill('```a\n')],
  ])('%s: read in a time that grows with the length', (_, text) => {
    expect(lexBlock(text)).toBeDefined()
    expect(splitBlocks(text).length).toBeGreaterThan(0)
  })

  test.each([
    fill(' '),
    `a\n${fill(' ')}\nb`,
    fill('*'),
    fill('`a``'),
    fill('[a]('),
    nestedList,
    fill('> > '),
    fill('\n'),
  ])('the end of an unfinished text is found in a time that grows with the length (%#)', (text) => {
    expect(finishTail(text).length).toBeLessThanOrEqual(text.length + 5000)
  })
})

describe('code is highlighted', () => {
  test.each([
    ['ts', 'const a = `b\nc` // d', 'keyword:const string:`b\nc` comment:// d'],
    ['js', 'if (x) return "a\\"b" + 0x1f', 'keyword:if keyword:return string:"a\\"b" number:0x1f'],
    ['json', '{"a": [1.5e3, true, "b"]}', 'name:"a" number:1.5e3 keyword:true string:"b"'],
    ['python', 'def f(): """a\nb""" # c', 'keyword:def string:"""a\nb""" comment:# c'],
    [
      'sql',
      "SELECT a FROM b WHERE c = 'd''e' -- f",
      "keyword:SELECT keyword:FROM keyword:WHERE string:'d''e' comment:-- f",
    ],
    [
      'bash',
      'if [ $A ]; then curl --fail "x"; fi # b',
      'keyword:if name:$A keyword:then name:--fail string:"x" keyword:fi comment:# b',
    ],
    [
      'html',
      '<p class="a">b</p><!-- c -->',
      'keyword:<p name:class string:"a" keyword:> keyword:</p keyword:> comment:<!-- c -->',
    ],
    ['css', 'a { color: red; } /* b */', 'name:color comment:/* b */'],
    ['yaml', 'a: 1\n- b: "c" # d', 'name:a number:1 name:- b string:"c" comment:# d'],
    ['JSON', 'null', 'keyword:null'],
    ['cobol', 'MOVE A TO B', ''],
    ['', 'const a', ''],
  ])('as %s', (language, code, expected) => {
    const marked = highlight(code, language).filter(([kind]) => kind)
    expect(marked.map((piece) => piece.join(':')).join(' ')).toBe(expected)
  })

  test('without changing it', () => {
    const languages = fc.constantFrom('ts', 'json', 'py', 'ruby', 'sh', 'yaml', 'sql', 'html', 'css')
    const code = fc.array(
      fc.constantFrom('"', "'", '`', '/*', '*/', '//', '#', '--', '<', '>', '\n', ' ', '\\', 'if', '1', '$a', '"""'),
    )
    fc.assert(
      fc.property(languages, code, (language, list) => {
        const text = list.join('')
        expect(
          highlight(text, language)
            .map(([, piece]) => piece)
            .join(''),
        ).toBe(text)
      }),
    )
  })
})
