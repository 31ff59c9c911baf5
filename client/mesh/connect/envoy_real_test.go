package connect

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"

	"berth/client/drivers/driver"
	"berth/consul"
	"berth/test/consultest"
)

// bootstrapConfig is the part of Envoy's configuration that the test looks at.
type bootstrapConfig struct {
	Admin struct {
		Address struct {
			SocketAddress struct {
				Address string `json:"address"`
				Port    int    `json:"port_value"`
			} `json:"socket_address"`
		} `json:"address"`
	} `json:"admin"`
	Node struct {
		ID      string `json:"id"`
		Cluster string `json:"cluster"`
	} `json:"node"`
}

// identity makes a token with the rights of a service, as the servers do.
func identity(t *testing.T, a *consultest.Agent, service string) string {
	t.Helper()
	made, _, err := a.API.ACL().TokenCreate(&api.ACLToken{
		Local:             true,
		ServiceIdentities: []*api.ACLServiceIdentity{{ServiceName: service}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return made.SecretID
}

// TestConsul_MakesTheConfiguration runs the real program, with the token of a service, against a Consul
// with ACLs.
func TestConsul_MakesTheConfiguration(t *testing.T) {
	a := consultest.Start(t, consultest.Options{ACLs: true})
	c := consul.DefaultConfig()
	c.Address = a.Addr
	c.ProxyPath = os.Getenv("CONSUL_BIN")
	link, err := consul.New(c, t.Name(), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	fx := sidecar(t)
	fx.using = link
	token := identity(t, a, "web")
	fx.write(driver.SITokenFile, token)
	err = fx.up(t.Context())
	if err == nil || !strings.Contains(err.Error(), "No sidecar proxy registered") {
		t.Errorf("without a registration: %v", err)
	}
	fx.checkNoFile()

	id := "_berth-task-a1-group-web-http"
	err = a.API.Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID:      id,
		Name:    "web",
		Port:    8080,
		Connect: &api.AgentServiceConnect{SidecarService: &api.AgentServiceRegistration{Port: 20001}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := fx.up(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fx.path(driver.EnvoyBootstrapFile))
	if err != nil {
		t.Fatal(err)
	}
	var got bootstrapConfig
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	admin := got.Admin.Address.SocketAddress
	if got.Node.ID != id+"-sidecar-proxy" || got.Node.Cluster != "web" ||
		admin.Address != "127.0.0.2" || admin.Port != 19001 {
		t.Errorf("the configuration is %+v", got)
	}
	for _, part := range []string{token, `"/alloc/tmp/consul_grpc.sock"`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("the configuration lacks %s:\n%s", part, text)
		}
	}

	unknown := "00000000-0000-4000-8000-00000000f00d"
	_ = os.Remove(fx.path(driver.SITokenFile))
	fx.write(driver.SITokenFile, unknown)
	err = fx.up(t.Context())
	if err == nil || strings.Contains(err.Error(), unknown) {
		t.Errorf("with a token that Consul does not know: %v", err)
	}
	fx.checkNoFile()
}
