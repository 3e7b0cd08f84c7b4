/** The route of requests to the array: the origin of the page, or, in the vSphere Client, the server of the plug-in. */
export type Route = (request: Request) => Promise<Response>;

let route: Route = (request) => globalThis.fetch(request);

export const sent: Route = (request) => route(request);

/** Replaces the route. */
export function takeRoute(next: Route): void {
  route = next;
}
