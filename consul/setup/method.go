package setup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"berth/consul"
	"berth/internal/setupstep"
	"berth/structs"
	"berth/structs/access"
)

// The kinds of objects, as Consul calls them.
const (
	kindMethod = "auth method"
	kindRule   = "binding rule"
	kindRole   = "role"
	kindPolicy = "policy"
)

// The names in the configuration of a method of type jwt.
const (
	typeJWT      = "jwt"
	keysURL      = "JWKSURL"
	keysCA       = "JWKSCACert"
	audiences    = "BoundAudiences"
	claims       = "ClaimMappings"
	algorithms   = "JWTSupportedAlgs"
	claimService = "nomad_service"
)

// neededClaims are the claims that the rules and the operators of Consul may select by.
var neededClaims = []string{"nomad_namespace", "nomad_job_id", "nomad_task", claimService}

// asStatus reports whether Consul has answered with an error.
func asStatus(err error, status *api.StatusError) bool { return errors.As(err, status) }

// methodStep compares the auth method.
func (c *Client) methodStep(ctx context.Context, m *api.ACLAuthMethod, w *Wanted) (*setupstep.Step, error) {
	url := w.JWKSURL
	if url == "" && (m == nil || !ours(m.Description)) {
		var err error
		url, err = w.DefaultURL(ctx)
		if err != nil {
			return nil, err
		}
	}
	if m == nil {
		return c.createMethod(url, w.JWKSCA), nil
	}

	lacks := lacking(m.Config, url, w.JWKSCA)
	switch {
	case m.Type != typeJWT:
		return nil, structs.Conflictf("the auth method %s of Consul has the type %q, and logins need %s; "+
			"delete it, if nobody needs it", m.Name, m.Type, typeJWT)
	case len(lacks) == 0:
		return kept(kindMethod, m.Name, m.Description), nil
	case !ours(m.Description):
		return nil, structs.Conflictf("somebody else has made the auth method %s of Consul, so it is not "+
			"changed: %s; change it yourself, or delete it", m.Name, strings.Join(lacks, "; "))
	}
	changed := *m
	changed.Config = completed(m.Config, url, w.JWKSCA)
	return &setupstep.Step{
		Action: setupstep.Change,
		Kind:   kindMethod,
		Name:   m.Name,
		Detail: strings.Join(lacks, "; "),
		Do: func(ctx context.Context) error {
			_, _, err := c.acl.AuthMethodUpdate(&changed, writing(ctx))
			return c.explainMethod(changed.Config, err)
		},
	}, nil
}

func (c *Client) createMethod(url, ca string) *setupstep.Step {
	config := completed(map[string]any{algorithms: []string{access.KeyRS256}}, url, ca)
	return &setupstep.Step{
		Action: setupstep.Create,
		Kind:   kindMethod,
		Name:   consul.DefaultAuthMethod,
		Detail: "verifies identities by the keys at " + url,
		Do: func(ctx context.Context) error {
			_, _, err := c.acl.AuthMethodCreate(&api.ACLAuthMethod{
				Name:        consul.DefaultAuthMethod,
				Type:        typeJWT,
				Description: "Logins of services and tasks of berth. " + mark,
				MaxTokenTTL: lostTokenTTL,
				Config:      config,
			}, writing(ctx))
			return c.explainMethod(config, err)
		},
	}
}

// explainMethod names the URL, which Consul reads before it takes the method.
func (c *Client) explainMethod(config map[string]any, err error) error {
	if err == nil {
		return nil
	}
	err = c.explain("writing the auth method "+consul.DefaultAuthMethod, err)
	if strings.Contains(err.Error(), keysURL) {
		return fmt.Errorf("%w\nConsul must reach %v and trust its certificate (-jwks-url, -jwks-ca-file)",
			err, config[keysURL])
	}
	return err
}

// lacking lists the differences of the configuration of a method to the needed one. An empty URL or authority
// may be any.
func lacking(config map[string]any, url, ca string) (lacks []string) {
	if url != "" && config[keysURL] != url {
		lacks = append(lacks, fmt.Sprintf("%s is %v instead of %s", keysURL, config[keysURL], url))
	}
	if ca != "" && config[keysCA] != ca {
		lacks = append(lacks, keysCA+" is another one")
	}
	if !slices.Contains(listOf(config[audiences]), any(Audience)) {
		lacks = append(lacks, audiences+" lacks "+Audience)
	}
	mapped, _ := config[claims].(map[string]any)
	for _, claim := range neededClaims {
		if mapped[claim] != claim {
			lacks = append(lacks, claims+" lacks "+claim)
		}
	}
	return lacks
}

func listOf(v any) []any {
	list, _ := v.([]any)
	return list
}

// completed returns a configuration with all that is needed.
func completed(config map[string]any, url, ca string) map[string]any {
	config = maps.Clone(config)
	if url != "" {
		config[keysURL] = url
	}
	if ca != "" {
		config[keysCA] = ca
	}
	if list := listOf(config[audiences]); !slices.Contains(list, any(Audience)) {
		config[audiences] = append(slices.Clone(list), Audience)
	}
	mapped, _ := config[claims].(map[string]any)
	mapped = maps.Clone(mapped)
	if mapped == nil {
		mapped = map[string]any{}
	}
	for _, claim := range neededClaims {
		mapped[claim] = claim
	}
	config[claims] = mapped
	return config
}

// lostTokenTTL bounds the life of a token that a node has lost.
const lostTokenTTL = 24 * time.Hour
