package tlscmd

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"berth/cli/command"
	"berth/internal/jointoken"
	"berth/internal/pki"
	"berth/rpc/joining"
	"berth/structs"
)

// joinTimeout bounds a join, with an election meanwhile.
const joinTimeout = time.Minute

var joinCommand = command.Command{
	Name:     "join",
	Args:     "<server> <token>",
	Synopsis: "Get the certificate of a new server or node for a join token",
	Help: `
The server is the address of the RPC port of a server: host:port. The token -
is read from the standard input, so that no list of processes shows it. It
says whether this machine is a server or a node.

Writes ca.pem, cert.pem, key.pem and tls.hcl with the settings that name them.
Start the agent with the directory as its configuration: it renews the
certificate by itself. The key stays on this machine. Existing files are not
overwritten. A server also gets the key of the gossip, and the file that opens
the keyring.`,
	Local: true,
	Acts:  true,
	Flags: []command.Flag{
		{
			Name:  "id",
			Kind:  command.String,
			Value: "id",
			Usage: "The node ID, or the name of the server. Default: a new node ID, or the host name",
		},
		{
			Name:  "name",
			Kind:  command.String,
			Value: "name",
			Usage: "The name of the node. Default: the host name",
		},
		{
			Name:  "node-pool",
			Kind:  command.String,
			Value: "pool",
			Usage: "The node pool of the node",
		},
		etcFlag,
	},
	Run: joinCluster,
	Examples: "berth tls join 10.0.0.1:4747 -\n" +
		"berth tls join -node-pool gpu 10.0.0.1:4747 \"$TOKEN\"",
}

func joinCluster(ctx context.Context, c *command.Call) error {
	text, err := tokenOf(c)
	if err != nil {
		return err
	}
	token, err := jointoken.Parse(text)
	if err != nil {
		return err
	}
	m := machine{
		dir:      c.String("dir"),
		region:   token.Region,
		role:     token.Role,
		servers:  []string{c.Arg(0)},
		nodePool: c.String("node-pool"),
	}
	id, err := m.identify(c)
	if err != nil {
		return err
	}
	err = m.checkNew()
	if err != nil {
		return err
	}

	err = m.join(ctx, text, id)
	if err == nil {
		err = m.write()
	}
	if err != nil {
		return err
	}
	certs, err := pki.ParseCertificates(m.certificate)
	if err != nil {
		return err
	}
	c.Printf("Wrote the certificate of the %s %s in the region %s. The agent renews it before %s.\n",
		m.role, id, m.region, command.FormatTime(certs[0].NotAfter))
	if m.role == pki.RoleServer {
		c.Printf("Add retry_join with the gossip address of a server to the configuration\n")
		c.Printf("(docs/operations/servers.md).\n")
	}
	m.printStart(c)
	return c.WriteOutcome(m.outcome(id, certs[0].NotAfter))
}

// tokenOf returns the token of the arguments or of the standard input. No error shows it.
func tokenOf(c *command.Call) (string, error) {
	text := c.Arg(1)
	c.Args = []string{c.Arg(0), "TOKEN"} // for the command that an error may name
	if text != "-" {
		return text, nil
	}
	line, err := bufio.NewReader(io.LimitReader(c.In, int64(jointoken.MaxText)+1)).ReadString('\n')
	if err != nil && err != io.EOF {
		return "", structs.Internalf("reading the token: %w", err)
	}
	return line, nil
}

// identify fills in the name of the node, and returns the ID of the machine.
func (m *machine) identify(c *command.Call) (id string, err error) {
	id = c.String("id")
	if id == "" {
		id, err = defaultID(m.role)
	}
	if err == nil && m.role == pki.RoleNode {
		m.nodeName = c.String("name")
	}
	if err == nil && m.role == pki.RoleNode && m.nodeName == "" {
		m.nodeName, err = os.Hostname()
	}
	return id, err
}

// checkNew returns an error if a file exists already: the token would be used for nothing.
func (m *machine) checkNew() error {
	for _, name := range []string{ownCAFile, ownCertFile, ownKeyFile, settingsFile} {
		_, err := os.Lstat(filepath.Join(m.dir, name))
		if !errors.Is(err, os.ErrNotExist) {
			return structs.Conflictf("there is a file %s already, and it is not overwritten: "+
				"move it away, or name another directory with -dir", m.path(name))
		}
	}
	return nil
}

func (m *machine) join(ctx context.Context, token, id string) error {
	key, err := pki.NewKey()
	if err != nil {
		return err
	}
	m.key, err = key.PEM()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	answer, err := joining.Join(ctx, m.servers[0], joining.Request{
		Token:    token,
		Key:      key,
		ID:       id,
		NodeName: m.nodeName,
		NodePool: m.nodePool,
	})
	if err != nil {
		return err
	}
	m.certificate = []byte(answer.Certificate)
	m.authorities = []byte(answer.Authorities)
	m.gossipKey = string(answer.GossipKey)
	if answer.Keyring != "" {
		m.keyring = []byte(answer.Keyring)
	}
	return nil
}
