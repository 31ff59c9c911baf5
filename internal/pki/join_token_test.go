package pki

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"berth/structs"
)

func TestToken_ReadsBackFromItsText(t *testing.T) {
	for _, region := range []string{"global", "a", strings.Repeat("r", maxTokenRegion)} {
		for _, role := range []Role{RoleNode, RoleServer} {
			token := NewJoinToken(region, role, newAuthority(t).Cert)
			text := token.Text()
			got, err := ParseJoinToken(" " + text + "\n")
			if err != nil || got != token || len(text) > MaxJoinToken {
				t.Errorf("got %+v, %v of %d bytes; want %+v", got, err, len(text), token)
			}
			if !bytes.Equal(got.Hash(), token.Hash()) {
				t.Error("the hash differs")
			}
			if strings.Contains(fmt.Sprint(token), text) {
				t.Error("a log shows the token")
			}
		}
	}
}

func TestParse_TellsADamagedToken(t *testing.T) {
	text := NewJoinToken("global", RoleNode, newAuthority(t).Cert).Text()
	other := "A"
	if strings.HasSuffix(text[:40], "A") {
		other = "B"
	}
	for _, damaged := range []string{
		"", "x", prefix, text[1:], text[:len(text)-1], text + "A", text[:39] + other + text[40:],
		text + strings.Repeat("A", MaxJoinToken),
	} {
		_, err := ParseJoinToken(damaged)
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%q: %v; expected invalid", damaged, err)
		}
		if len(damaged) > 20 && err != nil && strings.Contains(err.Error(), damaged) {
			t.Errorf("the error shows the token: %v", err)
		}
	}
}
