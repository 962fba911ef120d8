/** A browser without scripts: keeps cookies, follows redirects within the service, and fills in forms. */
export class Browser {
  readonly #cookies = new Map<string, { value: string; path: string }>()
  readonly #origin: string
  readonly #headers: Record<string, string>
  /** Target of the last redirect to another origin. */
  left: URL | undefined
  page: { url: URL; status: number; headers: Headers; html: string } | undefined

  constructor(origin: string, headers: Record<string, string> = {}) {
    this.#origin = origin
    this.#headers = headers
  }

  async open(address: string | URL): Promise<this> {
    return this.#go(new URL(address, this.#origin), { method: 'GET' })
  }

  /** Opens another tab with the same cookies. */
  fork(): Browser {
    const tab = new Browser(this.#origin, this.#headers)
    for (const [key, cookie] of this.#cookies) tab.#cookies.set(key, cookie)
    return tab
  }

  /** Follows the link with the given text. */
  async follow(text: string): Promise<this> {
    const link = [...this.html.matchAll(/<a [^>]*?href="([^"]*)">([^<]*)<\/a>/g)].find((match) => match[2] === text)
    if (!link) throw new Error(`No link "${text}" in ${this.html}`)
    return this.#go(new URL(decodeHtml(link[1] ?? ''), this.page?.url), { method: 'GET' })
  }

  /** Fills in the form and presses the button with the given text. */
  async press(text: string, values: Record<string, string> = {}, headers: Record<string, string> = {}): Promise<this> {
    const { action, fields } = this.form(text)
    const body = new URLSearchParams({ ...fields, ...values })
    return this.#go(new URL(action, this.page?.url), {
      method: 'POST',
      body,
      headers: { origin: this.#origin, ...headers },
    })
  }

  form(button: string): { action: string; fields: Record<string, string> } {
    for (const [, action = '', content = ''] of this.html.matchAll(
      /<form method="post" action="([^"]*)">([\s\S]*?)<\/form>/g,
    )) {
      const buttons = [...content.matchAll(/<button([^>]*)>([\s\S]*?)<\/button>/g)]
      const pressed = buttons.find((match) => readText(match[2] ?? '') === button)
      if (!pressed) continue
      const tags = [...content.matchAll(/<input([^>]*)>/g)].map((match) => match[1] ?? '')
      const named = [...tags, pressed[1] ?? ''].map((tag) => [attribute(tag, 'name'), attribute(tag, 'value')])
      return { action: decodeHtml(action), fields: Object.fromEntries(named.filter(([name]) => name)) }
    }
    throw new Error(`No button "${button}" in ${this.html}`)
  }

  get html(): string {
    return this.page?.html ?? ''
  }

  /** The visible text. */
  get text(): string {
    return readText(this.html.replace(/<style>[\s\S]*?<\/style>/g, ''))
  }

  /** The `Cookie` header of a request to the path. */
  cookieHeader(path = '/'): string {
    return this.#cookiesFor(new URL(path, this.#origin))
  }

  cookieNames(): string[] {
    return [...this.#cookies.keys()].map((key) => key.split(' ')[0] ?? '')
  }

  async #go(url: URL, init: RequestInit): Promise<this> {
    this.left = undefined
    if (url.origin !== this.#origin) {
      this.left = url
      return this
    }
    const headers = {
      ...this.#headers,
      ...(init.headers as Record<string, string>),
      cookie: this.#cookiesFor(url),
      accept: 'text/html',
    }
    const response = await fetch(url, { ...init, headers, redirect: 'manual' })
    for (const cookie of response.headers.getSetCookie()) this.#keep(cookie, url)
    const location = response.headers.get('location')
    if (location) return this.#go(new URL(location, url), { method: 'GET' })
    this.page = { url, status: response.status, headers: response.headers, html: await response.text() }
    return this
  }

  #keep(cookie: string, url: URL): void {
    const [pair = '', ...attributes] = cookie.split(';').map((part) => part.trim())
    const [name = '', value = ''] = pair.split(/=(.*)/s)
    const path = attributes.find((part) => /^path=/i.test(part))?.slice(5) ?? url.pathname
    if (value === '') this.#cookies.delete(`${name} ${path}`)
    else this.#cookies.set(`${name} ${path}`, { value, path })
  }

  #cookiesFor({ pathname }: URL): string {
    return [...this.#cookies]
      .filter(([, { path }]) => pathname === path || pathname.startsWith(path.replace(/\/?$/, '/')))
      .map(([key, { value }]) => `${key.split(' ')[0]}=${value}`)
      .join('; ')
  }
}

const attribute = (tag: string, name: string) => decodeHtml(tag.match(new RegExp(`\\b${name}="([^"]*)"`))?.[1] ?? '')

const readText = (html: string): string =>
  decodeHtml(html.replace(/<[^>]*>/g, ' '))
    .replace(/\s+/g, ' ')
    .trim()

const decodeHtml = (text: string) => text.replace(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code)))
