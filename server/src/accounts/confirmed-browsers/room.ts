import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import * as browsers from './browsers.ts'
import * as contract from './contract.ts'
import * as client from './sign-in-client.ts'

export const confirmedBrowsersRoom: Room<Service> = {
  tags: {},
  routes: [
    route(contract.getFrameSignIn, client.getFrameSignIn),
    route(contract.setFrameSignIn, client.setFrameSignIn),
    route(contract.deleteFrameSignIn, client.deleteFrameSignIn),
    route(contract.listConfirmedBrowsers, browsers.listConfirmedBrowsers),
    route(contract.removeConfirmedBrowser, browsers.removeConfirmedBrowser),
  ],
  tools: [],
}
