package access

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"

	accessapi "berth/api/access"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/access"
)

// LoginCommand is berth login.
var LoginCommand = command.Command{
	Name:     "login",
	Group:    command.GroupCluster,
	Synopsis: "Log in at a provider of identities, for a token of the cluster",
	Help: `
With a method of type OIDC the command prints an address. Open it in a browser
on this machine and log in there; the provider sends the browser back to the
command. With a method of type JWT the file has the token that the provider
has given; "-" is the standard input.

The secret of the token is shown only here. Set BERTH_TOKEN to it.`,
	Acts: true,
	Flags: []command.Flag{
		{
			Name:  "method",
			Kind:  command.String,
			Value: "name",
			Usage: "The auth method. Default: the one that is the default",
		},
		{Name: "type", Kind: command.String, Value: "OIDC|JWT", Usage: "The type of the default method"},
		{
			Name:    "oidc-callback-addr",
			Kind:    command.String,
			Value:   "address",
			Default: "localhost:4649",
			Usage:   "The address to which the provider sends the browser back",
		},
		{Name: "token-file", Kind: command.String, Value: "file", Usage: "The JWT"},
		command.NoColorFlag,
	},
	Run: runLogin,
	Examples: "berth login -method corp\n" +
		"berth login -method ci -token-file job.jwt",
}

func runLogin(ctx context.Context, c *command.Call) error {
	m, err := findAuthMethod(ctx, c)
	if err != nil {
		return err
	}

	logIn := logInByBrowser
	if m.Type == access.MethodJWT {
		logIn = logInByToken
	}
	t, err := logIn(ctx, c, m.Name)
	if err != nil {
		return err
	}
	PrintToken(c, t)
	return c.WriteOutcome(t)
}

// findAuthMethod returns the method that the options name, or the default one.
func findAuthMethod(ctx context.Context, c *command.Call) (*access.AuthMethodStub, error) {
	all, _, err := accessapi.AuthMethods(ctx, c.API, nil)
	if err != nil {
		return nil, err
	}

	var found []*access.AuthMethodStub
	kind := strings.ToUpper(c.String("type"))
	for _, m := range all {
		if c.Given("method") && m.Name == c.String("method") || !c.Given("method") && m.Default &&
			(kind == "" || kind == m.Type) {
			found = append(found, m)
		}
	}
	switch {
	case len(found) == 0 && c.Given("method"):
		return nil, structs.NotFoundf("there is no auth method %q; see berth acl auth-method list",
			c.String("method"))
	case len(found) == 0:
		return nil, structs.NotFoundf("no auth method is the default; name one of berth acl auth-method list with -method")
	case len(found) > 1:
		return nil, command.BadUsage("there is a default of each type; name one with -type or -method")
	}
	return found[0], nil
}

func logInByToken(ctx context.Context, c *command.Call, method string) (*access.OpenToken, error) {
	if !c.Given("token-file") {
		return nil, command.BadUsage("auth method %s takes a JWT; name its file with -token-file", method)
	}
	text, err := c.ReadFile(c.String("token-file"))
	if err != nil {
		return nil, err
	}
	return accessapi.Login(ctx, c.API, method, access.Secret(strings.TrimSpace(string(text))))
}

// logInByBrowser waits for the browser that a provider sends back.
func logInByBrowser(ctx context.Context, c *command.Call, method string) (*access.OpenToken, error) {
	back, err := listenForCallback(c.String("oidc-callback-addr"))
	if err != nil {
		return nil, err
	}
	defer back.close()

	nonce := access.Secret(rand.Text())
	address, err := accessapi.AuthURL(ctx, c.API, accessapi.AuthURLBody{
		AuthMethodName: method,
		RedirectURI:    back.address,
		ClientNonce:    nonce,
	})
	if err != nil {
		return nil, err
	}
	begun, err := url.Parse(address)
	if err != nil {
		return nil, structs.Internalf("the address of the provider is no URL: %w", err)
	}

	c.Printf("Open this address in a browser on this machine, and log in:\n\n%s\n\n", address)
	answer, err := back.wait(ctx, begun.Query().Get("state"))
	if err != nil {
		return nil, err
	}
	return accessapi.CompleteAuth(ctx, c.API, accessapi.CompleteAuthBody{
		AuthMethodName: method,
		ClientNonce:    nonce,
		State:          access.Secret(answer.Get("state")),
		Code:           access.Secret(answer.Get("code")),
		Iss:            answer.Get("iss"),
		RedirectURI:    back.address,
	})
}
