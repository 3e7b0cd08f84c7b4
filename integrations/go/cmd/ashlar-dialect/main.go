// Command ashlar-dialect serves interfaces that existing clients of other arrays speak, and translates them to the API of an
// Ashlar array.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"ashlar/integrations/array"
	"ashlar/integrations/dialect/k2"
)

const (
	headerTimeout   = 10 * time.Second
	requestTimeout  = time.Minute
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 10 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := perform(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "ashlar-dialect:", err)
		os.Exit(1)
	}
}

func perform(ctx context.Context, words []string) error {
	switch {
	case len(words) > 0 && words[0] == "version":
		fmt.Println("ashlar-dialect", array.Version)
		return nil
	case len(words) > 0 && words[0] == "k2":
		return serveK2(ctx, words[1:])
	}
	fmt.Fprintln(os.Stderr, `ashlar-dialect: an Ashlar array for clients of other arrays

Usage: ashlar-dialect VERB [OPTIONS]
  k2        serve the REST interface v2 of K2 arrays
  version   show the version

`+"`ashlar-dialect VERB -h`"+` lists the options of a verb.`)
	return errors.New("there is no such verb")
}

func serveK2(ctx context.Context, words []string) error {
	given := flag.NewFlagSet("ashlar-dialect k2", flag.ContinueOnError)
	config := k2.Config{Array: array.Access{Program: "ashlar-dialect/" + array.Version}}
	given.StringVar(&config.Array.URL, "array", os.Getenv("ASHLAR_ARRAY"), "address of the array's API, such as https://10.0.0.1:8080 [or: ASHLAR_ARRAY]")
	given.StringVar(&config.Array.CAFile, "array-certificate", "", "certificates to trust: the array's tls.pem")
	given.DurationVar(&config.FailoverPatience, "failover-patience", 2*time.Minute, "how long a failover waits for the last point of a source that responds")
	listen := given.String("listen", ":443", "address to listen on; clients expect port 443 unless theirs has another one")
	certificate := given.String("tls-certificate", "", "file with the certificate to show")
	key := given.String("tls-key", "", "file with its private key")
	peers := given.String("peers", "", "file with the other arrays of replications")
	if err := given.Parse(words); err != nil {
		return err
	}
	if *certificate == "" || *key == "" {
		return errors.New("no certificate: --tls-certificate and --tls-key")
	}
	show, err := tls.LoadX509KeyPair(*certificate, *key)
	if err != nil {
		return fmt.Errorf("the certificate can't be used: %w", err)
	}
	if *peers != "" {
		read, err := os.ReadFile(*peers)
		if err == nil {
			err = json.Unmarshal(read, &config.Peers)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", *peers, err)
		}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	made, err := k2.New(config, log)
	if err != nil {
		return err
	}
	return serve(ctx, *listen, show, made, log)
}

// serve ends in good order: requests that are being answered get their response.
func serve(ctx context.Context, listen string, show tls.Certificate, handler http.Handler, log *slog.Logger) error {
	socket, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	// The address counts if the port was left to the system.
	fmt.Println("serving https://" + socket.Addr().String())
	server := &http.Server{
		Handler: handler, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{show}},
		ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(socket, "", "") }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	return server.Shutdown(stopping)
}
