/** Browser functions that jsdom lacks, and the clean-up after each test. */
import { notifications } from "@mantine/notifications";
import { cleanup, configure } from "@testing-library/react";
import { afterEach } from "vitest";

// A test may be slow on a busy machine.
configure({ asyncUtilTimeout: 20_000 });

afterEach(() => {
  notifications.clean();
  cleanup();
  sessionStorage.clear();
});

window.matchMedia = (query) =>
  ({ matches: false, media: query, addEventListener: () => undefined, removeEventListener: () => undefined }) as unknown as MediaQueryList;

window.ResizeObserver = class {
  observe() {}
  unobserve() {}
  disconnect() {}
};

window.scrollTo = () => undefined;
Element.prototype.scrollIntoView = () => undefined;

// jsdom has no fonts; text areas that grow listen for them.
Object.defineProperty(document, "fonts", { value: new EventTarget() });
