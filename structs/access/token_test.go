package access_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"berth/structs/access"
)

// The JSON of a token has the dialect's names and times, and decodes to the token. It has no secret and no
// hash.
func TestToken_HasTheJSONOfTheDialect(t *testing.T) {
	created := time.Date(2026, 11, 24, 1, 2, 3, 0, time.UTC)
	token := access.Token{
		AccessorID: "a",
		SecretHash: access.HashSecret("s"),
		Name:       "on-call",
		Type:       access.TypeClient,
		Policies:   []string{"read"},
		Roles:      []*access.Link{{ID: "r", Name: "operators"}},
		CreateTime: created.UnixNano(),
		ExpireTime: created.Add(time.Hour).UnixNano(),
	}

	got, err := json.Marshal(access.OpenToken{Token: token, SecretID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"AccessorID":"a","Name":"on-call","Type":"client","Policies":["read"],` +
		`"Roles":[{"ID":"r","Name":"operators"}],"Global":false,"CreateIndex":0,"ModifyIndex":0,` +
		`"CreateTime":"2026-11-24T01:02:03Z","ExpirationTime":"2026-11-24T02:02:03Z","SecretID":"s"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}

	var back access.OpenToken
	err = json.Unmarshal(got, &back)
	token.SecretHash = nil
	if err != nil || !reflect.DeepEqual(back.Token, token) || back.SecretID != "s" {
		t.Errorf("got %+v, error %v; want %+v with its secret", back, err, token)
	}
}

func TestToken_ExpiresAtItsEnd(t *testing.T) {
	for _, c := range []struct {
		end, now int64
		want     bool
	}{{0, 1 << 60, false}, {10, 9, false}, {10, 10, true}} {
		token := access.Token{ExpireTime: c.end}
		if got := token.Expired(c.now); got != c.want {
			t.Errorf("end %d, now %d: got %t, want %t", c.end, c.now, got, c.want)
		}
	}
}
