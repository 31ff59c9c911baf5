// Package certificate has the commands that make and show the certificates of a cluster. Most use files
// alone. The others call a server: to join, to revoke certificates, and to replace the authority.
package certificate

import (
	"fmt"
	"time"

	"berth/cli/command"
	"berth/structs"
)

const (
	caFile    = "berth-agent-ca.pem"
	caKeyFile = "berth-agent-ca-key.pem"

	day     = 24 * time.Hour
	maxDays = 3650 // pki.MaxLife
)

// Commands are the verbs of berth tls.
var Commands = []command.Command{
	initCommand,
	joinCommand,
	revokeCommand,
	revocationsCommand,
	unrevokeCommand,
	{
		Name:     "ca",
		Synopsis: "Create, show and replace the certificate authority of a cluster",
		Sub: []command.Command{
			listAuthoritiesCommand,
			authorityInfoCommand,
			replaceAuthorityCommand,
			removeAuthorityCommand,
			{
				Name:     "create",
				Synopsis: "Create the authority that signs the certificates of a cluster",
				Help: `
Writes the certificate to ` + caFile + ` and the key to
` + caKeyFile + `. Every agent and every caller needs the
certificate. The key makes new certificates: keep it offline, on no agent.
Existing files are not overwritten.`,
				Local: true,
				Acts:  true,
				Flags: []command.Flag{
					regionFlag,
					daysFlag("1825"),
					dirFlag,
				},
				Run: createAuthority,
				Examples: "berth tls ca create\n" +
					"berth tls ca create -region eu -days 3650 -dir /root/ca",
			},
		},
	},
	{
		Name:     "cert",
		Synopsis: "Create, request and show certificates",
		Sub: []command.Command{
			createCommand,
			requestCommand,
			{
				Name:     "info",
				Args:     "<file>",
				Synopsis: "Show the holder, the names and the time of a certificate",
				Help: `
Shows the first certificate in a file of PEM. With -ca it also verifies that
the authority has signed it. "berth tls revoke -serial" takes the serial
number.`,
				Local:   true,
				Renders: true,
				Flags: []command.Flag{
					{
						Name:  "ca",
						Kind:  command.String,
						Value: "file",
						Usage: "The certificate of the authority that must have signed it",
					},
				},
				Run: showCertificate,
				Examples: "berth tls cert info global-server-s1.pem\n" +
					"berth tls cert info -ca berth-agent-ca.pem global-server-s1.pem",
			},
		},
	},
}

// createCommand is berth tls cert create.
var createCommand = command.Command{
	Name:     "create",
	Synopsis: "Create a certificate for a server, a node or an operator",
	Help: `
The certificate says what its holder may do: a server is a member of the
cluster, a node acts for its own node ID alone, and an operator calls the HTTP
API. An agent that is both a server and a node has a server's certificate.

A new node takes its node ID from its certificate. For a node that exists
already, -id is its ID: "berth node status -self -verbose" shows it there.

A server and a node also have the names server.REGION.berth or
node.REGION.berth, localhost, 127.0.0.1 and ::1. Name the other addresses at
which callers reach the HTTP API.

Writes REGION-ROLE-ID.pem and REGION-ROLE-ID-key.pem. Existing files are not
overwritten.`,
	Local: true,
	Acts:  true,
	Flags: []command.Flag{
		{Name: "server", Usage: "For a server"},
		{Name: "client", Usage: "For a node"},
		{Name: "cli", Usage: "For an operator: the command line, or a tool that calls the HTTP API"},
		{
			Name:  "id",
			Kind:  command.String,
			Value: "id",
			Usage: "The name of the server or of the operator, or the node ID. " +
				"Default: the host name, the user name, or a new node ID",
		},
		{
			Name:  "name",
			Kind:  command.Strings,
			Value: "name",
			Usage: "Another DNS name or IP address of the holder; may be repeated",
		},
		{
			Name:  "additional-dnsname",
			Kind:  command.Strings,
			Value: "name",
			Usage: "The same as -name",
		},
		{
			Name:  "additional-ipaddress",
			Kind:  command.Strings,
			Value: "address",
			Usage: "The same as -name",
		},
		regionOfCAFlag,
		daysFlag("365"),
		{
			Name:    "ca",
			Kind:    command.String,
			Value:   "file",
			Default: caFile,
			Usage:   "The certificate of the authority",
		},
		{
			Name:    "key",
			Kind:    command.String,
			Value:   "file",
			Default: caKeyFile,
			Usage:   "The key of the authority",
		},
		dirFlag,
	},
	Run: createCertificate,
	Examples: "berth tls cert create -server -id s1 -name s1.example.com -name 10.0.0.1\n" +
		"berth tls cert create -client\n" +
		"berth tls cert create -client -id 541ba1cf-e48d-59c5-0ec1-ce31ec81cc1a\n" +
		"berth tls cert create -cli -id ann",
}

var (
	regionFlag = command.Flag{
		Name:    "region",
		Kind:    command.String,
		Value:   "name",
		Default: structs.DefaultRegion,
		Usage:   "The region of the cluster",
	}
	regionOfCAFlag = command.Flag{
		Name:  "region",
		Kind:  command.String,
		Value: "name",
		Usage: "The region of the cluster. Default: the authority's, else " + structs.DefaultRegion,
	}
	dirFlag = command.Flag{
		Name:    "dir",
		Kind:    command.String,
		Value:   "dir",
		Default: ".",
		Usage:   "The directory of the new files",
	}
)

func daysFlag(standard string) command.Flag {
	return command.Flag{
		Name:    "days",
		Kind:    command.Number,
		Value:   "days",
		Default: standard,
		Usage:   fmt.Sprintf("The life of the certificate, from 1 to %d days", maxDays),
	}
}

// life returns the value of -days.
func life(c *command.Call) (time.Duration, error) {
	days := c.Number("days")
	if days < 1 || days > maxDays {
		return 0, command.BadUsage("-days is %d; expected 1 to %d", days, maxDays)
	}
	return time.Duration(days) * day, nil
}
