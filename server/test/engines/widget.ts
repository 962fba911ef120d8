import { buildWidget } from '../../../widget/build.ts'

/** Builds the files that the browser loads once, because `npm test` isn't the only way to run a test. */
export default buildWidget
