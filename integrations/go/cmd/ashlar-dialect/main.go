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

	"ashlar/integrations/admission"
	"ashlar/integrations/array"
	"ashlar/integrations/dialect/flash"
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
	verbs := map[string]func(context.Context, *options, []string) error{"k2": serveK2, "flash": serveFlash}
	if len(words) > 0 && words[0] == "version" {
		fmt.Println("ashlar-dialect", array.Version)
		return nil
	}
	if len(words) > 0 && verbs[words[0]] != nil {
		return verbs[words[0]](ctx, newOptions(words[0]), words[1:])
	}
	fmt.Fprintln(os.Stderr, `ashlar-dialect: an Ashlar array for clients of other arrays

Usage: ashlar-dialect VERB [OPTIONS]
  k2        serve the REST interface v2 of Kaminario K2
  flash     serve what volume drivers use of the REST interface 2 of Pure Storage FlashArray
  version   show the version

`+"`ashlar-dialect VERB -h`"+` lists the options of a verb.`)
	return errors.New("there is no such verb")
}

// options are what the interfaces have in common.
type options struct {
	*flag.FlagSet
	array                    array.Access
	listen, certificate, key string
	log                      *slog.Logger
}

func newOptions(name string) *options {
	made := &options{FlagSet: flag.NewFlagSet("ashlar-dialect "+name, flag.ContinueOnError), log: slog.New(admission.Log(slog.NewTextHandler(os.Stderr, nil)))}
	made.StringVar(&made.array.URL, "array", os.Getenv("ASHLAR_ARRAY"), "address of the array's API, such as https://10.0.0.1:8080 [or: ASHLAR_ARRAY]")
	made.StringVar(&made.array.CAFile, "array-certificate", "", "certificates to trust: the array's tls.pem")
	made.StringVar(&made.listen, "listen", ":443", "address to listen on; clients expect port 443 unless theirs has another one")
	made.StringVar(&made.certificate, "tls-certificate", "", "file with the certificate to show")
	made.StringVar(&made.key, "tls-key", "", "file with its private key")
	return made
}

func serveK2(ctx context.Context, given *options, words []string) error {
	var config k2.Config
	given.DurationVar(&config.FailoverPatience, "failover-patience", 2*time.Minute, "how long a failover waits for the last point of a source that responds")
	peers := given.String("peers", "", "file with the other arrays of replications")
	if err := given.Parse(words); err != nil {
		return err
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
	config.Array = given.array
	made, err := k2.New(config, given.log)
	if err != nil {
		return err
	}
	return given.serve(ctx, made)
}

func serveFlash(ctx context.Context, given *options, words []string) error {
	if err := given.Parse(words); err != nil {
		return err
	}
	return given.serve(ctx, flash.New(given.array, given.log))
}

// serve ends in good order: requests that are being answered get their response.
func (o *options) serve(ctx context.Context, handler http.Handler) error {
	if o.certificate == "" || o.key == "" {
		return errors.New("no certificate: --tls-certificate and --tls-key")
	}
	show, err := tls.LoadX509KeyPair(o.certificate, o.key)
	if err != nil {
		return fmt.Errorf("the certificate can't be used: %w", err)
	}
	socket, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	// The address counts if the port was left to the system.
	fmt.Println("serving https://" + socket.Addr().String())
	server := &http.Server{
		Handler: handler, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{show}},
		ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(o.log.Handler(), slog.LevelWarn),
	}
	limits, ended := admission.New(), make(chan error, 1)
	limits.Apply(server)
	go func() { ended <- server.ServeTLS(limits.Listener(socket), "", "") }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	return server.Shutdown(stopping)
}
