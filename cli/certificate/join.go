package certificate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"berth/api/show"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/rpc"
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

Writes ca.pem, cert.pem, key.pem and tls.hcl with the settings that name them
and the addresses of the servers. Start the agent with the directory as its
configuration: it renews the certificate by itself. The key stays on this
machine. Existing files are not overwritten. A server also gets the key of the
gossip, and the file that opens the keyring, unless the directory has the same
key in ` + keyringFile + ` already.

A machine of a cluster that runs without TLS joins with -mode prefer and its
present -id. A node also keeps its -name: a registered node needs a token with
that name.

"berth agent -join" does the same and then runs the agent.`,
	Local: true,
	Acts:  true,
	Flags: []command.Flag{
		{
			Name:  "id",
			Kind:  command.String,
			Value: "id",
			Usage: "The node ID, or the name of the server. Default: a new node ID, or -name",
		},
		{
			Name:  "name",
			Kind:  command.String,
			Value: "name",
			Usage: "The name of the node or the server. Default: the host name",
		},
		{
			Name:  "node-pool",
			Kind:  command.String,
			Value: "pool",
			Usage: "The node pool of the node",
		},
		ModeFlag,
		etcFlag,
	},
	Run: joinCluster,
	Examples: "berth tls join 10.0.0.1:4747 -\n" +
		"berth tls join -mode prefer -id s2 10.0.0.1:4747 -\n" +
		"berth tls join -node-pool gpu 10.0.0.1:4747 -",
}

// joinCluster waits for the server, which signs a certificate against the token.
func joinCluster(ctx context.Context, c *command.Call) error {
	mode, err := ParseMode("-mode", c.String("mode"))
	if err != nil {
		return err
	}

	token, err := tokenOf(c)
	if err != nil {
		return err
	}

	var m *Machine
	const step = "to see the servers, on one of them: berth server members"
	err = watch.New(c).Await(ctx, "the server "+c.Arg(0), step, func() (err error) {
		m, err = Join(ctx, Joining{
			Dir:      c.String("dir"),
			Mode:     mode,
			Server:   c.Arg(0),
			Token:    token,
			ID:       c.String("id"),
			Name:     c.String("name"),
			NodePool: c.String("node-pool"),
		})
		return err
	})
	if err != nil {
		return err
	}

	c.Printf("%s\n", m)
	m.printStart(c)
	return c.WriteOutcome(m.outcome(m.id, m.until))
}

// Joining is a machine that joins a cluster.
type Joining struct {
	Dir      string // of the files
	Mode     peertls.Mode
	Server   string // host:port of its RPC
	Token    string // a secret
	ID       string // a node ID, or the name of a server; "": a new one, or Name
	Name     string // of the agent; "": the host name
	NodePool string
}

// Join gets the certificate of a new machine for a token and writes its files. It overwrites none: that error
// is a conflict. No error shows the token.
func Join(ctx context.Context, j Joining) (*Machine, error) {
	token, err := pki.ParseJoinToken(j.Token)
	if err != nil {
		return nil, err
	}

	m := &Machine{
		dir:      j.Dir,
		mode:     j.Mode,
		region:   token.Region,
		role:     token.Role,
		joined:   true,
		nodePool: j.NodePool,
	}

	err = m.identify(j)
	if err != nil {
		return nil, err
	}

	err = m.checkNew()
	if err != nil {
		return nil, err
	}

	err = m.findKeyring()
	if err != nil {
		return nil, err
	}

	err = m.join(ctx, j)
	if err == nil {
		err = m.write()
	}
	if err != nil {
		return nil, err
	}

	certs, err := pki.ParseCertificates(m.certificate)
	if err != nil {
		return nil, err
	}

	m.until = certs[0].NotAfter
	return m, nil
}

// Joined reports whether a directory has the settings of a machine that has joined.
func Joined(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, settingsFile))
	return err == nil
}

// String tells what Join has done.
func (m *Machine) String() string {
	return fmt.Sprintf("Wrote the certificate of the %s %s in the region %s. The agent renews it before %s.",
		m.role, m.id, m.region, show.Time(m.until))
}

// tokenOf returns the token of the arguments or of the standard input. No error shows it.
func tokenOf(c *command.Call) (string, error) {
	text := c.Arg(1)
	c.Args = []string{c.Arg(0), "TOKEN"} // for the command that an error may name
	if text != "-" {
		return text, nil
	}

	line, err := bufio.NewReader(io.LimitReader(c.In, int64(pki.MaxJoinToken)+1)).ReadString('\n')
	if err != nil && err != io.EOF {
		return "", structs.Internalf("reading the token: %w", err)
	}

	return line, nil
}

// identify fills in the ID of the machine and the name of its agent. A server that is given no name follows
// its host's.
func (m *Machine) identify(j Joining) (err error) {
	m.name = j.Name
	m.id = j.ID
	if m.id == "" && m.role == pki.RoleServer {
		m.id = j.Name
	}
	if m.id == "" {
		m.id, err = defaultID(m.role)
	}
	if err != nil || m.role != pki.RoleNode {
		return err
	}

	if m.name == "" {
		m.name, err = os.Hostname()
	}

	return err
}

// checkNew returns an error if a file exists already: the token would be used for nothing.
func (m *Machine) checkNew() error {
	names := []string{ownCAFile, ownCertFile, ownKeyFile, settingsFile}
	if m.role == pki.RoleServer {
		names = append(names, otherKeyringFile)
	}

	for _, name := range names {
		_, err := os.Lstat(filepath.Join(m.dir, name))
		if !errors.Is(err, os.ErrNotExist) {
			return existing(m.path(name))
		}
	}

	return nil
}

func (m *Machine) join(ctx context.Context, j Joining) error {
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
	req := rpc.JoinRequest{
		Token:    j.Token,
		Key:      key,
		ID:       m.id,
		NodePool: m.nodePool,
	}
	if m.role == pki.RoleNode {
		req.NodeName = m.name
	}
	answer, err := rpc.Join(ctx, j.Server, req)
	if err != nil {
		return err
	}

	m.certificate = []byte(answer.Certificate)
	m.authorities = []byte(answer.Authorities)
	m.servers = answer.Servers
	if !slices.Contains(m.servers, j.Server) {
		m.servers = append(m.servers, j.Server)
	}

	m.gossip = answer.Gossip
	if len(m.gossip) == 0 { // the gossip of the server has not started
		m.gossip = []string{hostOf(j.Server)}
	}

	m.gossipKey = string(answer.GossipKey)
	if answer.Keyring != "" {
		m.keyring = []byte(answer.Keyring)
	}

	return nil
}

// hostOf returns the host of host:port, or an address without a port as it is.
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
