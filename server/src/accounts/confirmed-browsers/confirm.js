// The window in which a user confirms their browser. It takes a request from the chat's frame that opened it, and from
// nothing else: the browser says who sent a message, so a page that opens this window itself can't hand it a request.
const status = document.getElementById('status')
const { step } = status.dataset

const show = (text) => {
  status.textContent = text
}

async function begin(request) {
  const response = await fetch('/embed/confirm', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ request }),
  })
  const answer = await response.json()
  if (answer.is === 'confirmed') finish()
  else if (answer.is === 'provider') location.replace(answer.address)
  else show(answer.message)
}

function finish() {
  show('This browser is confirmed. You can close this window.')
  window.close()
}

function waitForFrame() {
  const { opener } = window
  const misdirected = 'Open this window from the agent’s panel: choose “Confirm this browser” there.'
  if (!opener) return show(misdirected)
  const late = setTimeout(() => show(misdirected), 10_000)
  addEventListener('message', function receive({ data, origin, source }) {
    if (origin !== location.origin || source !== opener || typeof data?.request !== 'string') return
    removeEventListener('message', receive)
    clearTimeout(late)
    begin(data.request).catch(() => show('Inlay can’t be reached. Close this window and try again.'))
  })
  opener.postMessage('inlay-confirm', location.origin)
}

if (step === 'done') finish()
else if (step === 'wait') waitForFrame()
