/** Of everything that a release holds. The manifests of the workspace have none of their own; packing writes this one. */
export const VERSION = '0.1.0'
