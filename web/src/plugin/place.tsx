/** The context of every page of the plug-in: the server, the page's object, and the array. */
import { createContext, useContext } from "react";
import type { Sdk } from "./sdk";
import type { Context, Server } from "./server";

export type Place = { sdk: Sdk; server: Server; about: Context; /** Name of the array whose data are shown. */ array: string; /** Asks for the object again, after it was changed. */ refresh: () => void };

const PlaceContext = createContext<Place | undefined>(undefined);

export const PlaceProvider = PlaceContext.Provider;

export function usePlace(): Place {
  const place = useContext(PlaceContext);
  if (!place) throw new Error("a page of the plug-in outside of the plug-in");
  return place;
}
