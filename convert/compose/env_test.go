package compose

import (
	"strings"
	"testing"
)

func TestIsSecret_ByTheNameOrTheAddress(t *testing.T) {
	for text, want := range map[[2]string]bool{
		{"DB_PASSWORD", "x7"}:         true,
		{"DB_PASS", "x7"}:             true,
		{"DB_PW", "x7"}:               true,
		{"PWD", "x7"}:                 true,
		{"BASIC_AUTH", "u:p"}:         true,
		{"SIGNING_KEY", "x7"}:         true,
		{"AWS_ACCESS_KEY_ID", "AKIA"}: true,
		{"ENCRYPTION_KEY", "x7"}:      true,
		{"DATABASE_URL", "postgres://shop:x7@db:5432/shop"}: true,
		{"DATABASE_URL", "postgres://db:5432/shop"}:         false,
		{"SITE", "https://example.com/a:b@c"}:               false,
		{"COMPASS", "north"}:                                false,
		{"AUTHOR", "me"}:                                    false,
		{"KEYBOARD", "de"}:                                  false,
		{"DB_PASSWORD_FILE", "/run/secrets/db"}:             false,
		{"USE_TOKENS", "true"}:                              false,
	} {
		if isSecret(text[0], text[1]) != want {
			t.Errorf("%s=%s: want %v", text[0], text[1], want)
		}
	}
}

// A name before that of the secret in the alphabet is no special case.
func TestConvert_MountsASecretAtItsTarget(t *testing.T) {
	t.Parallel()
	r := convert(t, `
services:
  a:
    image: a:3
    secrets:
      - source: postgres_pw
        target: db_pass
      - plain
secrets:
  postgres_pw: { file: pw }
  plain: { file: plain }
`)
	for _, want := range []string{`"/run/secrets/db_pass"`, `"/run/secrets/plain"`} {
		if !strings.Contains(string(r.Text), want) {
			t.Errorf("the file lacks %s:\n%s", want, r.Text)
		}
	}
}
