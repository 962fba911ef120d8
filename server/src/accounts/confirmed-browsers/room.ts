import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { listConfirmedBrowsers, removeConfirmedBrowser } from './browsers.ts'
import * as contract from './contract.ts'
import { deleteFrameSignIn, getFrameSignIn, setFrameSignIn } from './sign-in-client.ts'

export const confirmedBrowsersRoom: Room<Service> = {
  tags: {},
  routes: bind(contract, {
    getFrameSignIn,
    setFrameSignIn,
    deleteFrameSignIn,
    listConfirmedBrowsers,
    removeConfirmedBrowser,
  }),
  tools: [],
}
