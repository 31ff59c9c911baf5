package access

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"berth/api"
	"berth/internal/idtoken"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
)

const keysPath = "/.well-known/jwks.json"

var keySet = api.NewEndpoint[*jose.JSONWebKeySet](&table, api.Get, keysPath, serveKeys)

// IdentityKeySet reads the public keys.
func IdentityKeySet(ctx context.Context, c *api.Client) (*jose.JSONWebKeySet, error) {
	return keySet.Send(ctx, c, api.Request{})
}

// Discovery is the part of the document of OpenID Connect that a party needs which verifies identities.
type Discovery struct {
	Issuer        string   `json:"issuer"`
	KeysURL       string   `json:"jwks_uri"`
	ResponseTypes []string `json:"response_types_supported"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
	SubjectTypes  []string `json:"subject_types_supported"`
}

var discovery = api.NewEndpoint[*Discovery](&table, api.Get, "/.well-known/openid-configuration",
	serveDiscovery)

// Discover reads the document. The error is not-found if the servers have no issuer.
func Discover(ctx context.Context, c *api.Client) (*Discovery, error) {
	return discovery.Send(ctx, c, api.Request{})
}

// readKeys asks any server.
func readKeys(c *api.Call) (*access.KeysResponse, error) {
	req := &structs.QueryRequest{QueryOptions: structs.QueryOptions{AllowStale: true}}
	return rpc.Call(c.Ctx(), c.Caller, access.SigningKeys, req)
}

// cache lets others keep an answer.
func cache(c *api.Call) {
	c.SetHeader("Cache-Control", fmt.Sprintf("public, max-age=%d", int(access.KeyCacheTime.Seconds())))
}

func serveKeys(c *api.Call) (any, error) {
	resp, err := readKeys(c)
	if err != nil {
		return nil, err
	}
	set, err := idtoken.KeySet(resp.PublicKeys)
	if err != nil {
		return nil, err
	}
	cache(c)
	return set, nil
}

func serveDiscovery(c *api.Call) (any, error) {
	resp, err := readKeys(c)
	if err != nil {
		return nil, err
	}
	if resp.Issuer == "" {
		return nil, structs.NotFoundf("the servers have no issuer: set server { oidc_issuer = \"https://...\" } " +
			"to the URL at which others reach this API")
	}
	cache(c)
	return &Discovery{
		Issuer:        resp.Issuer,
		KeysURL:       strings.TrimSuffix(resp.Issuer, "/") + keysPath,
		ResponseTypes: []string{"code"},
		Algorithms:    []string{access.KeyRS256, access.KeyEdDSA},
		SubjectTypes:  []string{"public"},
	}, nil
}
