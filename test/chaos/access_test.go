package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"berth/api"
	accessapi "berth/api/access"
	"berth/api/operator"
	"berth/api/transport"
	"berth/internal/keyring"
	"berth/internal/pki"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
	"berth/test/guarantees"
)

// clusterAccess is what gives machines and people their rights in a run: certificates of an authority of its
// own, and tokens. The certificates began before the run and live for a year, so each wrong clock of the run
// is within their time: a machine whose clock is outside of it is cut off from all others by design.
type clusterAccess struct {
	authority *pki.Authority
	keyring   *keyring.FileKey // of the servers, as their gossip key
	gossip    string
	operator  transport.TLS // the certificate of a person
	node      transport.TLS // that of a node
	secret    string        // of the management token
}

const (
	certificateAge  = 3 * 24 * time.Hour // when the run begins
	certificateLife = 365 * 24 * time.Hour
)

// prepareAccess makes the authority and the files of a person.
func (w *world) prepareAccess() error {
	a := &clusterAccess{
		keyring: keyring.NewFileKey(),
		gossip:  cluster.NewGossipKey(),
		secret:  uuidOf(w.seed, 0),
	}
	var err error
	from := time.Now().Add(-certificateAge)
	a.authority, err = pki.NewAuthority(structs.DefaultRegion, from, 2*certificateLife)
	if err != nil {
		return err
	}
	w.access = a
	a.operator, err = a.issue(filepath.Join(w.dir, "operator"), pki.RoleOperator, "chaos")
	if err != nil {
		return err
	}
	a.node, err = a.issue(filepath.Join(w.dir, "stranger"), pki.RoleNode, uuidOf(w.seed, 1<<20))
	return err
}

// uuidOf returns one that the seed and a number decide.
func uuidOf(seed, number uint64) string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", number, seed)
}

// issue writes the files of a holder of a certificate to a new directory.
func (a *clusterAccess) issue(dir string, role pki.Role, id string, names ...string) (transport.TLS, error) {
	files := transport.TLS{
		CACert:     filepath.Join(dir, "ca.pem"),
		ClientCert: filepath.Join(dir, "cert.pem"),
		ClientKey:  filepath.Join(dir, "key.pem"),
	}
	cert, key, err := a.authority.Issue(pki.Request{
		Identity: pki.Identity{Region: structs.DefaultRegion, Role: role, ID: id},
		Names:    names,
		From:     time.Now().Add(-certificateAge),
		Life:     certificateLife,
	})
	if err != nil {
		return files, err
	}
	return files, errors.Join(
		os.MkdirAll(dir, 0o700),
		os.WriteFile(files.CACert, a.authority.CertPEM(), 0o600),
		os.WriteFile(files.ClientCert, cert, 0o600),
		os.WriteFile(files.ClientKey, key, 0o600))
}

// etc has the files of a machine that no agent writes: its certificate and, of a server, the keyring.
func (m *member) etc(elem ...string) string {
	return m.path(append([]string{"etc"}, elem...)...)
}

// certify gives a machine its certificate.
func (m *member) certify() error {
	a := m.w.access
	role, id := pki.RoleNode, uuidOf(m.w.seed, uint64(m.number))
	if m.server {
		role, id = pki.RoleServer, m.name
	}
	_, err := a.issue(m.etc(), role, id, m.name, m.addr)
	if m.server {
		err = errors.Join(err, a.keyring.WriteNew(m.etc("keyring")))
	}
	return err
}

// accessConfig has the blocks that both kinds of agents have.
func (m *member) accessConfig() string {
	return fmt.Sprintf(`
tls {
  mode      = "require"
  ca_file   = %q
  cert_file = %q
  key_file  = %q
}
acl {
  enabled = true
}
`, m.etc("ca.pem"), m.etc("cert.pem"), m.etc("key.pem"))
}

// operatorRules give what the operations need, and nothing else.
const operatorRules = `
namespace "default" {
  capabilities = ["read-job", "submit-job", "alloc-lifecycle"]
  volume "dir-*" {
    capabilities = ["claim", "expand"]
  }
}
host_volume "backend" {
  policy = "write"
}
node {
  policy = "write"
}
operator {
  policy = "write"
}
`

// haveRights makes the management token, if there is none yet.
func (w *world) haveRights() error {
	root := w.servers[0].client
	return call(func(ctx context.Context) error {
		_, err := accessapi.TokenSelf(ctx, root)
		if err != nil { // the answer to a former attempt may be lost
			_, err = accessapi.Bootstrap(ctx, root, w.access.secret)
		}
		return err
	})
}

// limitRights makes the token with few rights of those who operate.
func (w *world) limitRights() error {
	root := w.servers[0].client
	return call(func(ctx context.Context) error {
		err := accessapi.PutPolicy(ctx, root, &access.Policy{Name: "operate", Rules: operatorRules})
		if err != nil {
			return err
		}
		token, err := accessapi.PutToken(ctx, root, &access.Token{
			Name:     "operators",
			Type:     access.TypeClient,
			Policies: []string{"operate"},
		}, 0)
		if err != nil {
			return err
		}
		for _, s := range w.servers {
			s.operator = s.connectWith(w.access.operator, token.SecretID)
		}
		return nil
	})
}

// connectWith returns a client of the agent of a member with a certificate and a token.
func (m *member) connectWith(files transport.TLS, secret string) *api.Client {
	return api.NewClient(api.ClientConfig{
		Address: "https://" + m.addr + ":4746",
		TLS:     files,
		Token:   secret,
	})
}

// get reads a path of the agent of a member. The caller closes the body.
func (m *member) get(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	return api.Raw(ctx, m.client, &api.Route{Methods: http.MethodGet, Path: path}, api.Request{Query: query})
}

// stranger is a way to call an agent without a right.
type stranger struct {
	what   string
	client *api.Client
}

func (w *world) strangers() (all []stranger) {
	for _, m := range w.all {
		all = append(all,
			stranger{"without a token at " + m.name, m.connectWith(w.access.operator, "")},
			stranger{"with an unknown token at " + m.name, m.connectWith(w.access.operator, uuidOf(w.seed, 1))},
			stranger{"with the certificate of a node at " + m.name, m.connectWith(w.access.node, w.access.secret)},
			stranger{"without a certificate at " + m.name, m.connectWith(
				transport.TLS{CACert: w.access.operator.CACert}, w.access.secret)},
			stranger{"without TLS at " + m.name, api.NewClient(api.ClientConfig{
				Address: "http://" + m.addr + ":4746",
				Token:   w.access.secret,
			})},
		)
	}
	return all
}

// knockEach is the time between two calls of strangers.
const knockEach = 300 * time.Millisecond

// knock has strangers call the agents until the context ends. Whatever fault lasts, none gets what it asks
// for.
func (w *world) knock(ctx context.Context) {
	all := w.strangers()
	denied := 0
	for number := 0; sleep(ctx, knockEach); number++ {
		who := all[number%len(all)]
		limited, cancel := context.WithTimeout(ctx, time.Second)
		_, err := operator.ReadAgent(limited, who.client)
		cancel()
		who.client.Close() // the next call proves itself anew
		switch {
		case err == nil:
			w.violate(guarantees.Access, "a call %s is answered", who.what)
		case structs.IsKind(err, structs.KindDenied):
			denied++
		}
	}
	w.note("strangers: %d calls are denied", denied)
	if denied == 0 {
		w.violate(harness, "no agent has denied the call of a stranger")
	}
}
