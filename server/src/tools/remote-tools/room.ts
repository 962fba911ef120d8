import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import * as connectors from '../connectors/connectors.ts'
import * as contract from '../connectors/contract.ts'
import * as connectorRemoval from '../consent/connector-removal.ts'

import * as connectorCheck from './connector-check.ts'

export const remoteToolsRoom: Room<Service> = {
  tags: {
    Connectors: 'Remote tool servers that Inlay calls on behalf of the user.',
  },
  routes: [
    route(contract.listConnectors, connectors.listConnectors),
    route(contract.createConnector, connectors.createConnector),
    route(contract.getConnector, connectors.getConnector),
    route(contract.updateConnector, connectors.updateConnector),
    route(contract.deleteConnector, connectorRemoval.deleteConnector),
    route(contract.testConnector, connectorCheck.testConnector),
  ],
  tools: [],
}
