package certificate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"berth/api/show"
	"berth/cli/command"
	"berth/internal/keyring"
	"berth/internal/opsocket"
	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/structs"
	"berth/structs/cluster"
)

// The files of a machine of a cluster whose servers are the authority.
const (
	ownCAFile    = "ca.pem"
	ownCAKeyFile = "ca-key.pem"
	ownCertFile  = "cert.pem"
	ownKeyFile   = "key.pem"
	settingsFile = "tls.hcl"
)

// firstLife is the life of the certificate of the first server. It is longer than others, because the
// agent may start later. The agent renews it.
const firstLife = 30 * day

var etcFlag = command.Flag{
	Name:    "dir",
	Kind:    command.String,
	Value:   "dir",
	Default: opsocket.ConfigDir,
	Usage:   "The directory of the new files, which has the configuration of the agent",
}

var initCommand = command.Command{
	Name:     "init",
	Synopsis: "Make the servers the certificate authority, on the first of them",
	Help: `
Writes the files of the first server of a new cluster: an authority, a
certificate, a key for the gossip, the key-encryption key of the secrets, and
` + settingsFile + ` with the settings that name them. Start the agent with the directory
as its configuration. The first leader stores the key of the authority,
encrypted, and tells its log. Move ` + ownCAKeyFile + ` to a safe place then.
Existing files are not overwritten, and a file ` + keyringFile + ` in the directory stays
the key-encryption key.

A cluster that runs without TLS starts with -mode prefer. The gossip key is
in use in steps there, too: see docs/operations/tls.md.

Without a copy of ` + keyringFile + ` the secrets are lost with the servers, and no
archive has it. So one of -key-saved and -escrow-to is required.`,
	Local: true,
	Acts:  true,
	Flags: append([]command.Flag{
		regionFlag,
		daysFlag("3650"),
		{
			Name:  "id",
			Kind:  command.String,
			Value: "name",
			Usage: "The name of the server. Default: the host name",
		},
		ModeFlag,
		etcFlag,
	}, KeyCopyFlags...),
	Run: initAuthority,
	Examples: "berth tls init -key-saved\n" +
		"berth tls init -mode prefer -key-saved\n" +
		"berth tls init -key-saved -region eu -dir /etc/berth",
}

// initAuthority makes all files of the first server. It checks all of them before it writes one, because a
// second attempt must not find a part of the first.
func initAuthority(_ context.Context, c *command.Call) error {
	life, err := life(c)
	if err != nil {
		return err
	}

	mode, err := ParseMode("-mode", c.String("mode"))
	if err != nil {
		return err
	}

	copied, err := KeyCopyOf(c)
	if err != nil {
		return err
	}

	m := &Machine{
		dir:       c.String("dir"),
		mode:      mode,
		region:    c.String("region"),
		role:      pki.RoleServer,
		id:        c.String("id"),
		gossipKey: cluster.NewGossipKey(),
	}

	err = m.checkNew()
	if err == nil && m.id == "" {
		m.id, err = defaultID(pki.RoleServer)
	}

	if err == nil {
		err = m.beginAuthority(life)
	}

	if err == nil {
		err = m.beginKeyring(copied)
	}

	if err == nil {
		err = m.write()
	}
	if err != nil {
		return err
	}

	c.Printf("Wrote an authority for the region %s, the certificate of the server %s, a gossip key, and\n",
		m.region, m.id)
	c.Printf("the key-encryption key %s. Keep a copy of that file in a safe place.\n", m.keyringPath())
	copied.Print(c)
	m.printStart(c)
	m.printNext(c)
	return c.WriteOutcome(m.outcome(m.id, m.until))
}

// beginAuthority makes an authority with a life, and the certificate of the first server.
func (m *Machine) beginAuthority(life time.Duration) error {
	now := show.Now()
	authority, err := pki.NewAuthority(m.region, now, life)
	if err != nil {
		return fmt.Errorf("%w (-region)", err)
	}

	m.authorities = authority.CertPEM()
	m.caKey, err = authority.KeyPEM()
	if err != nil {
		return err
	}

	m.until = now.Add(min(firstLife, life))
	m.certificate, m.key, err = authority.Issue(pki.Request{
		Identity: pki.Identity{
			Region: m.region,
			Role:   pki.RoleServer,
			ID:     m.id,
		},
		From: now,
		Life: min(firstLife, life),
	})
	if err != nil {
		return fmt.Errorf("%w (-id)", err)
	}

	return nil
}

// printNext says what is to be done once the first server runs.
func (m *Machine) printNext(c *command.Call) {
	nodeToken := "berth node join-token create"
	if m.mode == peertls.ModePrefer {
		nodeToken += " -node-name NAME"
		c.Printf("Copy %s to the other servers, with mode 0600, and set it there:\n", m.keyringPath())
		c.Printf("  server {\n    keyring {\n      file = %q\n    }\n  }\n", m.keyringPath())
		c.Printf("Restart the servers one by one, and let this one lead:\n")
		c.Printf("  berth operator raft transfer-leadership -peer-address ADDRESS\n")
	}

	c.Printf("Once its log says that the servers have the key of the certificate authority, move\n")
	c.Printf("%s to a safe place, and make tokens for the other machines:\n", m.path(ownCAKeyFile))
	c.Printf("  berth server join-token create\n")
	c.Printf("  %s\n", nodeToken)
}

// Machine has the files of a machine that is a part of a cluster.
type Machine struct {
	dir         string
	mode        peertls.Mode
	region      string
	role        pki.Role
	id          string // a node ID, or the name of a server
	joined      bool   // it has not begun the cluster
	certificate []byte
	until       time.Time // the end of the certificate
	key         []byte
	authorities []byte
	caKey       []byte           // of the first server
	gossip      []string         // the gossip addresses of the servers
	gossipKey   string           // of a server
	keyring     []byte           // of a server; nil: the servers have sent none
	found       *keyring.FileKey // the key in keyringFile, before anything is written
	servers     []string         // their RPC addresses
	name        string           // of the agent; "" for the first server, and for one with the name of its host
	nodePool    string
}

func (m *Machine) path(name string) string { return filepath.Join(absolute(m.dir), name) }

// write creates all files, or none. It makes the directory if it is missing.
func (m *Machine) write() error {
	err := os.MkdirAll(m.dir, 0o755)
	if err != nil {
		return structs.Invalidf("%w (-dir)", err)
	}

	files := []newFile{
		{m.path(ownCAFile), modeCert, m.authorities},
		{m.path(ownCertFile), modeCert, m.certificate},
		{m.path(ownKeyFile), modeKey, m.key},
		{m.path(settingsFile), modeKey, []byte(m.settings())},
	}

	if m.caKey != nil {
		files = append(files, newFile{m.path(ownCAKeyFile), modeKey, m.caKey})
	}

	if m.keyring != nil && !m.hasKeyring() {
		files = append(files, newFile{m.keyringPath(), modeKey, m.keyring})
	}

	return createFiles(files)
}

// settings returns the content of settingsFile.
func (m *Machine) settings() string {
	var b strings.Builder
	fmt.Fprintf(&b, "region = %q\n", m.region)
	if m.name != "" {
		fmt.Fprintf(&b, "name = %q\n", m.name)
	}

	fmt.Fprintf(&b, "\ntls {\n  mode      = %q\n", m.mode)
	fmt.Fprintf(&b, "  ca_file   = %q\n", m.path(ownCAFile))
	fmt.Fprintf(&b, "  cert_file = %q\n", m.path(ownCertFile))
	fmt.Fprintf(&b, "  key_file  = %q\n", m.path(ownKeyFile))
	fmt.Fprintf(&b, "  renew     = true\n")
	if m.caKey != nil {
		fmt.Fprintf(&b, "  ca_key_file = %q\n", m.path(ownCAKeyFile))
	}

	fmt.Fprintf(&b, "}\n\n")
	if m.role == pki.RoleServer {
		m.writeServer(&b)
	} else {
		m.writeNode(&b)
	}

	return b.String()
}

// writeServer writes the settings of a server. One that has joined never begins a cluster of its own.
func (m *Machine) writeServer(b *strings.Builder) {
	fmt.Fprintf(b, "server {\n  enabled = true\n")
	if m.joined {
		fmt.Fprintf(b, "  bootstrap_expect = 0\n")
		fmt.Fprintf(b, "  retry_join = %s\n", quotedList(m.gossip))
	}

	if m.gossipKey != "" {
		fmt.Fprintf(b, "  encrypt = %q\n", m.gossipKey)
		m.writeGossipSteps(b)
	}

	if m.keyring != nil {
		fmt.Fprintf(b, "\n  keyring {\n    file = %q\n  }\n", m.keyringPath())
	}

	fmt.Fprintf(b, "}\n")
}

// writeGossipSteps has a server of a cluster that runs without a gossip key understand both kinds of gossip,
// and send the kind that all servers understand.
func (m *Machine) writeGossipSteps(b *strings.Builder) {
	if m.mode != peertls.ModePrefer {
		return
	}
	fmt.Fprintf(b, "  encrypt_verify_incoming = false\n")
	fmt.Fprintf(b, "  encrypt_verify_outgoing = false\n")
}

func (m *Machine) writeNode(b *strings.Builder) {
	fmt.Fprintf(b, "client {\n  enabled = true\n  servers = %s\n", quotedList(m.servers))
	if m.nodePool != "" {
		fmt.Fprintf(b, "  node_pool = %q\n", m.nodePool)
	}
	fmt.Fprintf(b, "}\n")
}

// quotedList returns a list of HCL.
func quotedList(all []string) string {
	quoted := make([]string, len(all))
	for i, s := range all {
		quoted[i] = strconv.Quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func (m *Machine) printStart(c *command.Call) {
	c.Printf("The settings are in %s. Start the agent with them:\n", m.path(settingsFile))
	c.Printf("  berth agent -config %s\n", structs.ShellWord(absolute(m.dir)))
}

func (m *Machine) outcome(id string, until time.Time) created {
	return created{
		Identity: pki.Identity{
			Region: m.region,
			Role:   m.role,
			ID:     id,
		}.String(),
		CertFile: m.path(ownCertFile),
		KeyFile:  m.path(ownKeyFile),
		Until:    until,
	}
}
