// The shop's functions, for users in the page and as tools for agents.
const products = [
  { id: 'notebook', name: 'Notebook, dotted', price: 12 },
  { id: 'fountain-pen', name: 'Fountain pen', price: 48 },
  { id: 'ink-blue', name: 'Ink, blue', price: 9 },
  { id: 'ink-green', name: 'Ink, green', price: 9 },
  { id: 'pencils', name: 'Pencils, box of twelve', price: 14 },
]
/** The quantity of each product, by product id. */
const cart = new Map()

const find = (id) => document.getElementById(id)
/** The words in any order, in the singular or plural. */
const search = (text) => {
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
  return products.filter(({ name }) => words.every((word) => name.toLowerCase().includes(word.replace(/s$/, ''))))
}
const money = (amount) => `€ ${amount.toFixed(2)}`
const total = () => products.reduce((sum, { id, price }) => sum + price * (cart.get(id) ?? 0), 0)

function addToCart(id, quantity) {
  cart.set(id, (cart.get(id) ?? 0) + quantity)
  showCart()
}

function emptyCart() {
  cart.clear()
  showCart()
}

function row(text, ...more) {
  const item = document.createElement('li')
  item.append(text, ...more)
  return item
}

function addButton({ id, name }) {
  const button = document.createElement('button')
  button.type = 'button'
  button.textContent = 'Add'
  button.ariaLabel = `Add ${name} to the cart`
  button.onclick = () => addToCart(id, 1)
  return button
}

function showProducts() {
  const rows = search(find('search').value).map((product) =>
    row(`${product.name} · ${money(product.price)}`, addButton(product)),
  )
  find('products').replaceChildren(...rows)
}

function showCart() {
  const chosen = products.filter(({ id }) => cart.has(id))
  find('cart').replaceChildren(...chosen.map(({ id, name }) => row(`${cart.get(id)} × ${name}`)))
  find('total').value = money(total())
}

find('search').oninput = showProducts
find('empty').onclick = emptyCart
showProducts()
showCart()

const summary = () => ({ items: Object.fromEntries(cart), total: money(total()) })

const tools = [
  {
    name: 'search_products',
    title: 'Search products',
    description: 'Finds products by words of their name. Returns their ids, names and prices.',
    inputSchema: {
      type: 'object',
      properties: { query: { type: 'string', description: 'Words of the name; omit it to list all products' } },
    },
    annotations: { readOnlyHint: true },
    execute: ({ query = '' }) => ({
      products: search(query).map(({ id, name, price }) => ({ id, name, price: money(price) })),
    }),
  },
  {
    name: 'add_to_cart',
    title: 'Add to the cart',
    description: 'Adds a product to the cart of the user who has this page open.',
    inputSchema: {
      type: 'object',
      properties: {
        product_id: { type: 'string', enum: products.map(({ id }) => id) },
        quantity: { type: 'integer', minimum: 1, maximum: 99, default: 1 },
      },
      required: ['product_id'],
    },
    execute({ product_id, quantity = 1 }) {
      if (!products.some(({ id }) => id === product_id)) throw new Error(`Unknown product: ${product_id}`)
      addToCart(product_id, quantity)
      return summary()
    },
  },
  {
    name: 'empty_cart',
    title: 'Empty the cart',
    description: 'Removes everything from the cart.',
    inputSchema: { type: 'object', properties: {} },
    execute() {
      emptyCart()
      return summary()
    },
  },
]
for (const tool of tools) await document.modelContext?.registerTool(tool)

/** Reads the session again on each call, because it can end on the server while the page is open. */
async function readSession() {
  const session = await (await fetch('/session')).json()
  find('person').textContent = session.name ? `Hello, ${session.name}` : ''
  find('sign-in').hidden = session.name !== undefined
  find('sign-out').hidden = session.name === undefined
  return session
}
const { name } = await readSession()

// The widget calls the function again when it needs a fresh token; the token itself is never part of the page.
const agent = document.querySelector('inlay-agent')
await customElements.whenDefined('inlay-agent')
agent.connect({
  publishableKey: agent.dataset.key,
  ...(name && { idToken: async () => (await readSession()).idToken }),
})
