// Runs on the sign-in page and on the account page. An element with `data-passkey` belongs to a form that needs a
// passkey: it is hidden unless the browser supports passkeys. The form is sent with the browser's response.

const decode = (text) =>
  Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (character) => character.charCodeAt(0))

const encode = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')

const describe = ({ id, rawId, type }, response) =>
  JSON.stringify({ id, rawId: encode(rawId), type, response, clientExtensionResults: {} })

async function create(options) {
  const publicKey = {
    ...options,
    challenge: decode(options.challenge),
    user: { ...options.user, id: decode(options.user.id) },
    excludeCredentials: options.excludeCredentials.map((known) => ({ ...known, id: decode(known.id) })),
  }
  const credential = await navigator.credentials.create({ publicKey })
  const { clientDataJSON, attestationObject } = credential.response
  return describe(credential, {
    clientDataJSON: encode(clientDataJSON),
    attestationObject: encode(attestationObject),
  })
}

async function get(options) {
  const credential = await navigator.credentials.get({
    publicKey: { ...options, challenge: decode(options.challenge) },
  })
  const { clientDataJSON, authenticatorData, signature, userHandle } = credential.response
  return describe(credential, {
    clientDataJSON: encode(clientDataJSON),
    authenticatorData: encode(authenticatorData),
    signature: encode(signature),
    userHandle: encode(userHandle ?? new ArrayBuffer(0)),
  })
}

function explain({ name, message }) {
  if (name === 'NotAllowedError') return 'You canceled, or the device didn’t respond in time. Try again.'
  if (name === 'InvalidStateError') return 'This device already has a passkey for your account.'
  return `Your browser couldn’t use a passkey: ${message}`
}

for (const part of document.querySelectorAll('[data-passkey]')) {
  if (!window.PublicKeyCredential) continue
  const form = part.closest('form')
  const problem = part.querySelector('[data-problem]')
  const button = part.querySelector('button')
  part.hidden = false
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    button.disabled = true
    problem.replaceChildren()
    try {
      const ceremony = part.dataset.passkey === 'create' ? create : get
      form.elements.response.value = await ceremony(JSON.parse(part.dataset.options))
      form.submit()
    } catch (error) {
      const alert = document.createElement('p')
      alert.setAttribute('role', 'alert')
      alert.textContent = explain(error)
      problem.replaceChildren(alert)
      button.disabled = false
    }
  })
}
// A page from the browser's back/forward cache is shown as it was left.
window.addEventListener('pageshow', ({ persisted }) => {
  if (persisted) for (const button of document.querySelectorAll('[data-passkey] button')) button.disabled = false
})
