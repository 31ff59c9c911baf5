package certificate

import (
	"context"

	"berth/cli/command"
	"berth/structs"
)

// authorityInfoCommand is berth tls ca info.
var authorityInfoCommand = command.Command{
	Name:     "info",
	Args:     "<file>",
	Synopsis: "Show the name and the time of an authority by its certificate",
	Local:    true,
	Renders:  true,
	Run:      showAuthority,
	Examples: "berth tls ca info " + caFile,
}

// showAuthority shows the first certificate of a file, which must be an authority's.
func showAuthority(_ context.Context, c *command.Call) error {
	certs, err := readCertificates(c, c.Arg(0))
	if err != nil {
		return err
	}
	if !certs[0].IsCA {
		return structs.Invalidf("%s is not the certificate of an authority; to show it: %s",
			c.Arg(0), structs.CommandLine("", "tls cert info", c.Arg(0)))
	}

	info := describe(certs[0])
	issuer := issuerOf(certs[0], certs)
	if issuer != nil {
		info.IssuerFingerprint = fingerprint(issuer.Raw)
	}
	return c.Show(info, func() error {
		printCertificate(c, info)
		return nil
	})
}
