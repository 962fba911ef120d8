import type { ClientMessageInput } from '@inlay/protocol'

/** Confirms, in a window on our own origin, that this browser is the user's. */
export interface Confirmation {
  /** Call it in a click. Returns false if the browser or the page allows no window. */
  open(): boolean
  /** The server's request, which the window takes from this frame only. */
  hand(request: string): void
}

/** The window's first message. */
const asksForRequest = 'inlay-confirm'
const features = 'popup,width=480,height=640'

export function createConfirmation(send: (message: ClientMessageInput) => void): Confirmation {
  let opened: Window | null = null
  window.addEventListener('message', ({ source, origin, data }) => {
    const isWindow = opened !== null && source === opened && origin === location.origin
    if (isWindow && data === asksForRequest) send({ type: 'frame/confirm' })
  })
  return {
    open() {
      opened?.close()
      opened = window.open('/embed/confirm', '', features)
      return opened !== null
    },
    hand(request) {
      opened?.postMessage({ request }, location.origin)
    },
  }
}
