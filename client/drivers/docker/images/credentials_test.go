package images

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/client/drivers/docker/engine"
	"berth/client/drivers/docker/taskconfig"
)

// helper is a program that keeps credentials.
const helper = `#!/bin/sh
read -r registry
case "$registry" in
quiet) echo "credentials not found in native keychain"; exit 1 ;;
token) echo '{"Username":"<token>","Secret":"t"}' ;;
broken) echo oops; exit 3 ;;
leaking) echo '{"Username":"u","Secret":"s3cret"}'; exit 1 ;;
*) echo '{"Username":"h","Secret":"'"$registry"'"}' ;;
esac
`

func TestAuth_FindsCredentials(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.json")
	for path, text := range map[string]string{
		file: `{"auths": {"https://index.docker.io/v1/": {"auth": "dTpw"},
			"reg:5000": {"username": "a", "password": "b"}, "ident.example": {"identitytoken": "i"}},
			"credHelpers": {"helped.example": "test"}}`,
		filepath.Join(dir, "docker-credential-test"): helper,
	} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	cfg := taskconfig.AuthConfig{Config: file}
	for image, want := range map[string]engine.Auth{
		"a:1":                   {Username: "u", Password: "p", ServerAddress: defaultRegistry},
		"reg:5000/a:1":          {Username: "a", Password: "b", ServerAddress: "reg:5000"},
		"ident.example/a/b":     {IdentityToken: "i", ServerAddress: "ident.example"},
		"helped.example/x":      {Username: "h", Password: "helped.example", ServerAddress: "helped.example"},
		"other.example/x":       {},
		strings.Repeat("a", 64): {}, // an ID
	} {
		got, err := Credentials(t.Context(), cfg, &taskconfig.Task{Image: image})
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v", image, got, err)
		}
	}
	own := &taskconfig.Task{Image: "a:1", Auth: &taskconfig.Auth{Username: "o", Password: "w"}}
	if got, err := Credentials(t.Context(), cfg, own); err != nil || got.Username != "o" {
		t.Errorf("the task's own: %+v, %v", got, err)
	}
	cfg.Helper = "test"
	for image, want := range map[string]string{"reg:5000/a:1": "b", "other.example/x": "other.example"} {
		got, err := Credentials(t.Context(), cfg, &taskconfig.Task{Image: image})
		if err != nil || got.Password != want {
			t.Errorf("with a helper for all, %s: got %+v, %v", image, got, err)
		}
	}
}

func TestAskHelper_ReadsItsAnswer(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker-credential-test"), []byte(helper), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for registry, want := range map[string]engine.Auth{
		"some":  {Username: "h", Password: "some", ServerAddress: "some"},
		"token": {IdentityToken: "t", ServerAddress: "token"},
		"quiet": {},
	} {
		got, err := askHelper(t.Context(), "test", registry)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v", registry, got, err)
		}
	}
	for registry, want := range map[string]string{"broken": "exit status 3: oops", "leaking": "exit status 1"} {
		_, err := askHelper(t.Context(), "test", registry)
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", registry, err, want)
		}
	}
	if _, err := askHelper(t.Context(), "none", "x"); err == nil {
		t.Error("a helper that is not there: no error")
	}
}
