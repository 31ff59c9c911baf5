package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"os"

	"berth/cli/command"
	"berth/structs"
)

// tlsFlags are the options with which a command calls a cluster that speaks TLS. The dialect's own tools have
// the same variables.
var tlsFlags = []command.Flag{
	{Name: "ca-cert", Kind: command.String, Value: "file",
		Usage: "The certificates of authorities in PEM; default NOMAD_CACERT"},
	{Name: "client-cert", Kind: command.String, Value: "file",
		Usage: "The certificate of the caller in PEM; default NOMAD_CLIENT_CERT"},
	{Name: "client-key", Kind: command.String, Value: "file",
		Usage: "The key of -client-cert in PEM; default NOMAD_CLIENT_KEY"},
	{Name: "tls-server-name", Kind: command.String, Value: "name",
		Usage: "The name that the certificate of the cluster must have; default NOMAD_TLS_SERVER_NAME"},
}

// tlsConfig reads the files of tlsFlags.
func tlsConfig(c *command.Call) (*tls.Config, error) {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: cmp.Or(c.String("tls-server-name"), os.Getenv("NOMAD_TLS_SERVER_NAME")),
	}
	if name := cmp.Or(c.String("ca-cert"), os.Getenv("NOMAD_CACERT")); name != "" {
		text, err := readFile(name)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, structs.Invalidf("%s has no certificate in PEM (-ca-cert, NOMAD_CACERT)", name)
		}
	}

	cert := cmp.Or(c.String("client-cert"), os.Getenv("NOMAD_CLIENT_CERT"))
	key := cmp.Or(c.String("client-key"), os.Getenv("NOMAD_CLIENT_KEY"))
	switch {
	case cert == "" && key == "":
		return config, nil
	case key == "":
		return nil, command.BadUsage("-client-cert needs its key: name it with -client-key or NOMAD_CLIENT_KEY")
	case cert == "":
		return nil, command.BadUsage(
			"-client-key needs its certificate: name it with -client-cert or NOMAD_CLIENT_CERT")
	}
	certText, err := readFile(cert)
	if err != nil {
		return nil, err
	}
	keyText, err := readFile(key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certText, keyText)
	if err != nil {
		return nil, structs.Invalidf("%s and %s (-client-cert, -client-key): %w", cert, key, err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}
