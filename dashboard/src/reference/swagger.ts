import './swagger.css'
import SwaggerUI, { type Plugin, type SwaggerRequest, type System } from 'swagger-ui-dist/swagger-ui-es-bundle.js'
import { authorizedFetch, isSignedIn } from '../session/session.ts'

/** Descriptions are text in which only code is marked. They never become HTML. */
const descriptions: Plugin = ({ React }: System) => ({
  components: {
    Markdown: ({ source = '' }: { source?: string }) =>
      React.createElement(
        'p',
        { className: 'markdown' },
        ...source.split(/`([^`]+)`/).map((part, index) => (index % 2 ? React.createElement('code', null, part) : part)),
      ),
  },
})

/** Swagger UI puts a link into each heading's button. The button already changes the address. */
const plainHeadings: Plugin = ({ React }: System) => ({
  components: {
    DeepLink: ({ text }: { text: React.ReactNode }) => React.createElement('span', null, text),
  },
})

/** The field for the request body has no label of its own. */
const labels: Plugin = ({ React }: System) => ({
  wrapComponents: {
    TextArea: (Original) => (properties: object) =>
      React.createElement(Original, { 'aria-label': 'Request body', ...properties }),
  },
})

const nothing = () => () => null

/** The page's own header has the title, the server and the account. */
const withoutHeader: Plugin = () => ({
  wrapComponents: {
    info: nothing,
    InfoContainer: nothing,
    SchemesContainer: nothing,
    ServersContainer: nothing,
    authorizeBtn: nothing,
    authorizeOperationBtn: nothing,
  },
})

/** The token is added when the request is sent, so that the command to copy doesn't show it. */
function prepareRequest(request: SwaggerRequest): SwaggerRequest {
  if (request.loadSpec || !isSignedIn()) return request
  request.curlOptions = ['-H "Authorization: Bearer $TOKEN"']
  request.userFetch = (url, options) => authorizedFetch(new Request(url, options))
  return request
}

/** Shows the operations. Returns a function that opens the one that an address names. */
export function showOperations(domNode: HTMLElement, spec: object): (hash: string) => void {
  const ui = SwaggerUI({
    domNode,
    spec,
    deepLinking: true,
    docExpansion: 'list',
    defaultModelsExpandDepth: -1,
    displayRequestDuration: true,
    validatorUrl: null,
    // The highlighter has colors of its own, for one theme.
    syntaxHighlight: false,
    presets: [SwaggerUI.presets.apis],
    plugins: [descriptions, plainHeadings, labels, withoutHeader],
    requestInterceptor: prepareRequest,
  })
  return (hash) => ui.getSystem().layoutActions.parseDeepLinkHash(decodeURIComponent(hash))
}
