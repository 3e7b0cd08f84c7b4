// Command ashlar-sra is the Storage Replication Adapter: Site Recovery Manager starts it for each command, which it writes to
// the standard input.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"ashlar/integrations/sra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := sra.Run(ctx, os.Stdin, os.Stderr)
	stop()
	if err != nil {
		// Errors that have a response are in it, and the exit code is 0.
		fmt.Fprintln(os.Stderr, "ashlar-sra:", err)
		os.Exit(1)
	}
}
