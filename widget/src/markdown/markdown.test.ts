import fc from 'fast-check'
import { Component, type ComponentChild, type ComponentClass, h, isValidElement } from 'preact'
import { describe, expect, test } from 'vitest'
import { Markdown, type MarkdownStrings } from './markdown.ts'

const strings: MarkdownStrings = {
  code: 'Code',
  copy: 'Copy',
  copied: 'Copied',
  selected: 'Press Ctrl+C',
  table: 'Table',
  done: 'Done',
  notDone: 'Not done',
}

interface Element {
  tag: string
  attributes: Record<string, unknown>
  children: Tree[]
}
type Tree = Element | string

/** Renders components as preact does, without a document. */
function expand(child: ComponentChild | ComponentChild[]): Tree[] {
  if (Array.isArray(child)) return child.flatMap(expand)
  if (child === null || child === undefined || typeof child === 'boolean') return []
  if (!isValidElement(child)) return [String(child)]
  const { children, ...attributes } = child.props as Record<string, unknown> & { children?: ComponentChild }
  const type = child.type as string | ComponentClass
  if (typeof type === 'string') return [{ tag: type, attributes, children: expand(children) }]
  const instance = new type(child.props as never) as Component
  expect(instance).toBeInstanceOf(Component)
  return expand(instance.render(child.props as never, instance.state, {}))
}

const render = (text: string, isStreaming = false) =>
  (expand(h(Markdown, { text, isStreaming, strings }))[0] as Element).children

/** Attributes that are the same everywhere are left out, to keep the tables readable. */
const constant = /^(?:dir|tabIndex|onClick|type|role|rel|target|referrerpolicy|aria-live|ref)$/

const write = (tree: Tree): string => {
  if (typeof tree === 'string') return tree
  const attributes = Object.entries(tree.attributes)
    .filter(([name, value]) => !constant.test(name) && value !== undefined)
    .map(([name, value]) => ` ${name}=${value}`)
    .join('')
  return `<${tree.tag}${attributes}>${tree.children.map(write).join('')}</${tree.tag}>`
}
const html = (text: string, isStreaming?: boolean) => render(text, isStreaming).map(write).join('')

const textOf = (tree: Tree): string => (typeof tree === 'string' ? tree : tree.children.map(textOf).join(''))
const shown = (text: string) => render(text).map(textOf).join('\n')

const elementsOf = (tree: Tree): Element[] =>
  typeof tree === 'string' ? [] : [tree, ...tree.children.flatMap(elementsOf)]

const link = (href: string, label: string, destination?: string) =>
  `<a href=${href}><bdi>${label}</bdi>${destination ? ` <bdi class=md-destination>(${destination})</bdi>` : ''}</a>`
const code = (content: string, language = '') =>
  `<div class=md-code><div class=md-code-head><span class=md-language>${language}</span><button class=md-copy><span>Copy</span></button></div><div class=md-scroll aria-label=Code${language && `: ${language}`}><pre><code>${content}</code></pre></div></div>`

describe('syntax', () => {
  test.each([
    ['paragraphs', 'one\n\ntwo', '<p>one</p><p>two</p>'],
    ['line breaks', 'one\ntwo', '<p>one<br></br>two</p>'],
    ['headings, two levels lower', '# One\n\n###### Six', '<h3>One</h3><h6>Six</h6>'],
    ['underlined headings', 'One\n===', '<h3>One</h3>'],
    [
      'emphasis',
      '*a* **b** ***c*** ~~d~~',
      '<p><em>a</em> <strong>b</strong> <em><strong>c</strong></em> <del>d</del></p>',
    ],
    ['code in text', 'a `b *c* &amp;`', '<p>a <code>b *c* &amp;</code></p>'],
    ['rules', 'a\n\n---\n\nb', '<p>a</p><hr></hr><p>b</p>'],
    ['quotes', '> a\n>\n> > b', '<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>'],
    ['lists', '- a\n- b\n  - c', '<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>'],
    ['numbered lists', '3. a\n4. b', '<ol start=3><li>a</li><li>b</li></ol>'],
    [
      'a list right below its introduction',
      'Do:\n1. a\n\n2. b',
      '<p>Do:</p><ol><li><p>a</p></li><li><p>b</p></li></ol>',
    ],
    ['a paragraph inside a list', '- a\n\n  b\n\nc', '<ul><li><p>a</p><p>b</p></li></ul><p>c</p>'],
    [
      'tasks',
      '- [x] a\n- [ ] b',
      '<ul><li class=md-task><span class=md-box md-checked aria-label=Done></span>a</li><li class=md-task><span class=md-box aria-label=Not done></span>b</li></ul>',
    ],
    [
      'tables',
      '| a | b |\n|---|--:|\n| *c* | d |',
      '<div class=md-table md-scroll aria-label=Table><table><thead><tr><th scope=col>a</th><th scope=col class=md-right>b</th></tr></thead><tbody><tr><td><em>c</em></td><td class=md-right>d</td></tr></tbody></table></div>',
    ],
    ['code blocks', '```\na\n\n*b*\n```\nc', `${code('a\n\n*b*')}<p>c</p>`],
    [
      'code blocks in lists',
      '- a\n\n  ```\n  b\n\n  c\n  ```\n- d',
      `<ul><li><p>a</p>${code('b\n\nc')}</li><li><p>d</p></li></ul>`,
    ],
    ['indented code', '    a\n\n    b', code('a\n\nb')],
    [
      'the language of code',
      '```js title="x"\nlet a = 1 // b\n```',
      code(
        '<span class=md-keyword>let</span> a = <span class=md-number>1</span> <span class=md-comment>// b</span>',
        'js',
      ),
    ],
    ['escapes', '\\*a\\* \\<b>', '<p>*a* <b></p>'],
    ['references to characters, once', '&lt;b&gt; &#42;c&#42; &amp;lt; &nope;', '<p><b> *c* &lt; &nope;</p>'],
    [
      'HTML as text',
      '<b onclick="x()">a</b> <img src=x onerror=alert(1)>',
      '<p><b onclick="x()">a</b> <img src=x onerror=alert(1)></p>',
    ],
    [
      'blocks of HTML as text',
      '<script>\nalert(1 * 2 * 3)\n</script>',
      '<p class=md-plain><script>\nalert(1 * 2 * 3)\n</script></p>',
    ],
    ['footnotes and definitions as text', 'a[^1]\n\n[^1]: b', '<p>a[^1]</p><p>[^1]: b</p>'],
    ['Windows line endings', 'a\r\n\r\nb', '<p>a</p><p>b</p>'],
  ])('shows %s', (_, text, expected) => {
    expect(html(text)).toBe(expected)
  })

  test('a block has its own direction, and code goes from left to right', () => {
    const elements = render('# a\n\nb\n\n- c\n\n> d\n\n```\ne\n```\n\n|f|\n|-|').flatMap(elementsOf)
    const directions = elements.map(({ tag, attributes }) => [tag, attributes.dir])
    expect(directions).toEqual(
      expect.arrayContaining([
        ['h3', 'auto'],
        ['p', 'auto'],
        ['ul', 'auto'],
        ['li', undefined],
        ['blockquote', 'auto'],
        ['div', 'ltr'],
        ['th', 'auto'],
      ]),
    )
  })
})

describe('links', () => {
  test.each([
    ['an address as text', 'https://shop.example/a', link('https://shop.example/a', 'https://shop.example/a')],
    [
      'an address inside of a sentence',
      '(see https://shop.example/a_(b)).',
      `(see ${link('https://shop.example/a_(b)', 'https://shop.example/a_(b)')}).`,
    ],
    ['an address in angle brackets', '<https://shop.example>', link('https://shop.example/', 'https://shop.example')],
    ['an address without a scheme', 'www.shop.example', link('https://www.shop.example/', 'www.shop.example')],
    ['an email address', 'a@shop.example', link('mailto:a@shop.example', 'a@shop.example')],
    [
      'the same address with a text',
      '[shop.example](https://shop.example/)',
      link('https://shop.example/', 'shop.example'),
    ],
    [
      'another text',
      '[our *terms*](https://evil.example/x)',
      link('https://evil.example/x', 'our <em>terms</em>', 'evil.example'),
    ],
    [
      'the address of another host',
      '[https://shop.example](https://evil.example)',
      link('https://evil.example/', 'https://shop.example', 'evil.example'),
    ],
    [
      'a host that only starts the same',
      '[shop.example](https://shop.example.evil.example)',
      link('https://shop.example.evil.example/', 'shop.example', 'shop.example.evil.example'),
    ],
    [
      'a user name that looks like a host',
      '[shop.example@evil.example](https://evil.example)',
      link('https://evil.example/', 'shop.example@evil.example', 'evil.example'),
    ],
    [
      'another port',
      '[shop.example](https://shop.example:8443/)',
      link('https://shop.example:8443/', 'shop.example', 'shop.example:8443'),
    ],
    [
      'look-alike letters',
      '[раура.example](https://раура.example)',
      link('https://xn--80aa0cbo.example/', 'раура.example', 'xn--80aa0cbo.example'),
    ],
    [
      'an email link',
      '[write us](mailto:a@shop.example?subject=Hi)',
      link('mailto:a@shop.example?subject=Hi', 'write us', 'a@shop.example'),
    ],
    ['no text', '[](https://shop.example/a)', '<a href=https://shop.example/a><bdi>https://shop.example/a</bdi></a>'],
    [
      'references in the address',
      '[a](https://shop.example/?b=1&amp;c=2)',
      link('https://shop.example/?b=1&c=2', 'a', 'shop.example/?b=1&c=2'),
    ],
    [
      'an image',
      '![A cat](https://evil.example/pixel.gif)',
      link('https://evil.example/pixel.gif', 'A cat', 'evil.example'),
    ],
    [
      'an image inside of a link',
      '[![A cat](https://a.example/1.gif)](https://b.example)',
      link('https://b.example/', 'A cat', 'b.example'),
    ],
    [
      'a query, which can carry data',
      '[ok](https://evil.example/?d=SECRET)',
      link('https://evil.example/?d=SECRET', 'ok', 'evil.example/?d=SECRET'),
    ],
    [
      'a query behind the name of its host',
      '[evil.example](https://evil.example/?d=SECRET)',
      link('https://evil.example/?d=SECRET', 'evil.example', 'evil.example/?d=SECRET'),
    ],
    [
      'a query behind another one',
      '[https://evil.example/?d=1](https://evil.example/?d=SECRET)',
      link('https://evil.example/?d=SECRET', 'https://evil.example/?d=1', 'evil.example/?d=SECRET'),
    ],
    [
      'a query in an image',
      '![A cat](https://evil.example/1.gif?d=SECRET)',
      link('https://evil.example/1.gif?d=SECRET', 'A cat', 'evil.example/1.gif?d=SECRET'),
    ],
    [
      'a fragment, which the other page can read',
      '[ok](https://evil.example/#SECRET)',
      link('https://evil.example/#SECRET', 'ok', 'evil.example/#SECRET'),
    ],
    [
      'a long path',
      '[ok](https://evil.example/DE89370400440532013000)',
      link('https://evil.example/DE89370400440532013000', 'ok', 'evil.example/DE89370400440532013000'),
    ],
    [
      'a very long address',
      `[ok](https://evil.example/${'b'.repeat(300)})`,
      link(`https://evil.example/${'b'.repeat(300)}`, 'ok', `evil.example/${'b'.repeat(107)}…`),
    ],
    [
      'an address as text, which shows its query',
      'https://shop.example/orders?id=1041',
      link('https://shop.example/orders?id=1041', 'https://shop.example/orders?id=1041'),
    ],
    [
      'hidden characters in the text',
      '[shop\u202E.example](https://evil.example)',
      link('https://evil.example/', 'shop.example', 'evil.example'),
    ],
  ])('%s', (_, text, expected) => {
    expect(html(text)).toBe(`<p>${expected}</p>`)
  })

  test.each([
    ['[a](javascript:alert(1))', 'a'],
    ['[a](JaVaScRiPt:alert(1))', 'a'],
    ['[a](&#106;avascript:alert(1))', 'a'],
    ['[a](java\u200Bscript:alert(1))', 'a'],
    ['[a](data:text/html,b)', 'a'],
    ['[a](vbscript:b)', 'a'],
    ['[a](file:///etc/passwd)', 'a'],
    ['[a](blob:https://shop.example/b)', 'a'],
    ['[a](/cart)', 'a'],
    ['[a](//evil.example)', 'a'],
    ['[a](\\\\evil.example)', 'a'],
    ['[a](https:evil.example)', 'a'],
    ['[a](https:\\\\evil.example)', 'a'],
    ['[a](https://shop.example@evil.example/)', 'a'],
    ['https://shop.example:x@evil.example/', 'https://shop.example:x@evil.example/'],
    ['[a](mailto:a@b.example?bcc=c@d.example&body=e)', 'a'],
    ['[a](tel:123)', 'a'],
    ['<javascript:alert(1)>', 'javascript:alert(1)'],
    [`[a](https://shop.example/${'b'.repeat(2048)})`, 'a'],
    ['![a](data:image/png;base64,AAAA)', 'a'],
  ])('%j is text', (text, expected) => {
    expect(html(text)).toBe(`<p>${expected}</p>`)
  })

  test('open in a new tab that learns nothing about this page', () => {
    const [a] = render('https://shop.example')
      .flatMap(elementsOf)
      .filter(({ tag }) => tag === 'a')
    expect(a?.attributes).toEqual({
      href: 'https://shop.example/',
      target: '_blank',
      rel: 'noopener noreferrer nofollow',
      referrerpolicy: 'no-referrer',
    })
  })
})

test.each([
  ['a\u202Eb', 'ab'],
  ['a&#x202E;b', 'ab'],
  ['a\u200B\u2066\u2069\u00ADb', 'ab'],
  ['a\u{E0041}\u{E0042}b', 'ab'],
  ['a\uFE0Fb\u{E0100}', 'ab'],
  [`a${'\u0301'.repeat(50)}`, `a${'\u0301'.repeat(5)}`],
  ['👨‍👩‍👧 ❤️ 👍🏽 1️⃣', '👨‍👩‍👧 ❤️ 👍🏽 1️⃣'],
  ['می‌خواهم', 'می‌خواهم'],
  ['`a\u202Eb\u00A0`', 'a\\u{202e}b\\u{a0}'],
])('hidden characters of %j are removed from text, and escaped in code', (text, expected) => {
  expect(shown(text)).toBe(expected)
})

describe('while text is streamed', () => {
  test.each([
    ['open emphasis is closed', 'a **b', '<p>a <strong>b</strong></p>'],
    ['half of a closing mark counts', 'a **b*', '<p>a <strong>b</strong></p>'],
    ['nested emphasis is closed', '**a *b', '<p><strong>a <em>b</em></strong></p>'],
    ['emphasis without content is left out', 'a **', '<p>a </p>'],
    ['open code is closed', 'a `b*c', '<p>a <code>b*c</code></p>'],
    ['multiplication stays', '2*3 and 4 * 5', '<p>2*3 and 4 * 5</p>'],
    ['names stay', 'snake_case', '<p>snake_case</p>'],
    ['an open link is its text', 'see [our te', '<p>see our te</p>'],
    ['an open address is left out', 'see [our terms](https://shop.ex', '<p>see our terms</p>'],
    ['an open image is its text', '![A ca', '<p>A ca</p>'],
    ['a possible list is left out', 'a\n-', '<p>a</p>'],
    ['emphasis above a possible list is closed', 'a **b\n-', '<p>a <strong>b</strong></p>'],
    ['a possible item is left out', '1. a\n2', '<ol><li>a</li></ol>'],
    ['a possible item after a blank line is left out', '1. a\n\n2.', '<ol><li>a</li></ol>'],
    ['a possible heading is left out', 'a\n\n##', '<p>a</p>'],
    ['a possible underline is left out', 'a\n--', '<p>a</p>'],
    ['a possible table is left out', 'a\n\n| b | c |\n|--', '<p>a</p>'],
    ['a fence without its language is left out', 'a\n\n```j', '<p>a</p>'],
    ['an open fence is code', '```\na **b', code('a **b')],
    ['half of a closing fence is left out', '```\na\n``', code('a')],
    ['marks in a list item are closed', '- a\n- **b', '<ul><li>a</li><li><strong>b</strong></li></ul>'],
    ['earlier blocks are complete', '*a\n\nb', '<p>*a</p><p>b</p>'],
  ])('%s', (_, text, expected) => {
    expect(html(text, true)).toBe(expected)
  })

  test('complete text is shown as it is', () => {
    expect(html('a **b')).toBe('<p>a **b</p>')
    expect(html('42', false)).toBe('<p>42</p>')
  })
})

/** Pieces from which syntax of all kinds comes about, also by accident. */
const pieces = [
  ...[
    '*',
    '**',
    '_',
    '~~',
    '`',
    '```',
    '[',
    ']',
    '(',
    ')',
    '](',
    '![',
    '<',
    '>',
    '<!--',
    '-->',
    '|',
    '|-|\n',
    '\n',
    '\n\n',
  ],
  ...[
    '# ',
    '- ',
    '1. ',
    '> ',
    '    ',
    '\t',
    '---\n',
    '===\n',
    '\\',
    '&',
    '&lt;',
    '&#x202e;',
    ' ',
    '\r',
    '\u202E',
    '\u200D',
  ],
  ...[
    'http://a.example',
    'https://u:p@a.example',
    'javascript:',
    'mailto:a@b.example',
    'data:text/html,',
    'www.a.example',
  ],
  ...[
    '<script>',
    '</a>',
    '<img src=x onerror=y>',
    'a@b.example',
    '"',
    "'",
    '[x]: https://a.example\n',
    '- [ ] ',
    '~~~js\n',
  ],
]
const allowed: Record<string, RegExp> = {
  class: /^md(?:-[a-z]+)+(?: md-[a-z]+)?$/,
  dir: /^(?:auto|ltr)$/,
  href: /^(?:https?:\/\/(?!u:)|mailto:)/,
  target: /^_blank$/,
  rel: /^noopener noreferrer nofollow$/,
  referrerpolicy: /^no-referrer$/,
  scope: /^col$/,
  start: /^\d{1,9}$/,
  role: /^(?:group|img)$/,
  'aria-label': /^(?:Table|Code(?:: [\w+#.-]{1,20})?|Done|Not done)$/,
  'aria-live': /^polite$/,
  tabIndex: /^0$/,
  type: /^button$/,
}
const tags =
  /^(?:p|h[3-6]|strong|em|del|code|br|hr|ul|ol|li|blockquote|table|thead|tbody|tr|th|td|pre|div|span|button|a|bdi)$/

const mixtures = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 200 }),
  fc
    .array(fc.oneof(fc.constantFrom(...pieces), fc.string({ maxLength: 5 })), { maxLength: 60 })
    .map((list) => list.join('')),
)

test('no text can create other elements, attributes or addresses than those allowed', () => {
  fc.assert(
    fc.property(mixtures, fc.boolean(), (text, isStreaming) => {
      for (const { tag, attributes } of render(text, isStreaming).flatMap(elementsOf)) {
        expect(tag).toMatch(tags)
        for (const [name, value] of Object.entries(attributes)) {
          if (value === undefined || name === 'ref' || name === 'onClick') continue
          expect(String(value), name).toMatch(allowed[name] ?? /(?!)/)
        }
      }
    }),
    { numRuns: 500 },
  )
})

test('no text hides words, and no hidden characters are shown', () => {
  // These take words away on purpose: as addresses, as a code block's title, and as cells outside of a table's columns.
  const harmless = pieces.filter((piece) => !/\]\(|\||```|~~~|\($/.test(piece))
  const words = fc.array(fc.oneof(fc.constantFrom(...harmless), fc.stringMatching(/^ w[a-z]{2,5} $/)), {
    maxLength: 40,
  })
  fc.assert(
    fc.property(words, (list) => {
      // Two pieces can make the fence of a code block.
      fc.pre(!/```|~~~/.test(list.join('')))
      const visible = render(list.join('')).map(textOf).join(' ')
      for (const word of list.filter((piece) => / w[a-z]+ /.test(piece))) expect(visible).toContain(word.trim())
      expect(visible).not.toMatch(/[\u202A-\u202E\u2066-\u2069\u200B\r]/)
    }),
    { numRuns: 500 },
  )
})
