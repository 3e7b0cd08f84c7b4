import type { SchemaEncryption as Encryption } from "../../api/schema";

/** The source of the key that wraps the data encryption key. */
export const ENCRYPTION: Record<Encryption, string> = {
  none: "not encrypted",
  file: "encrypted, locked with a key file",
  passphrase: "encrypted, locked with a passphrase",
  kmip: "encrypted, locked with a key on a KMIP server",
};
