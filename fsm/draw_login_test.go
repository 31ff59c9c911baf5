package fsm

import (
	"maps"
	"time"

	"berth/state"
	"berth/structs"
	"berth/structs/access"
)

// loginDraws draws entries about few auth methods, rules and logins, so that many of them meet.
var loginDraws = map[string]func(d dice, tx *state.ReadTx) ([]byte, error){
	"ACLAuthMethodPut": func(d dice, _ *state.ReadTx) ([]byte, error) {
		m := &access.AuthMethod{
			Name:          d.of("m1", "m2", "not valid"),
			Type:          d.of(access.MethodJWT, access.MethodOIDC),
			TokenLocality: access.LocalityLocal,
			MaxTokenTTL:   access.Duration(time.Second),
			Default:       d.flip(),
			Config:        &access.AuthConfig{OIDCClientID: "c"},
		}
		if d.flip() {
			m.Sealed = &structs.Sealed{KeyID: "k1", Data: []byte("s")}
		}
		return ACLAuthMethodPut.Encode(&access.AuthMethodChange{Method: m, Now: d.now().Now})
	},
	"ACLAuthMethodDelete": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return ACLAuthMethodDelete.Encode(&access.AuthMethodDeleteRequest{Name: d.of("m1", "m2")})
	},
	"ACLBindingRulePut": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return ACLBindingRulePut.Encode(&access.BindingRuleChange{
			Rule: &access.BindingRule{
				ID:         d.of("b1", "b2"),
				AuthMethod: d.of("m1", "m2"),
				BindType:   access.BindPolicy,
				BindName:   d.of("p1", "p2", ""),
			},
			Now: d.now().Now,
		})
	},
	"ACLBindingRuleDelete": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return ACLBindingRuleDelete.Encode(&access.BindingRuleDeleteRequest{ID: d.of("b1", "b2")})
	},
	"ACLLogin": func(d dice, tx *state.ReadTx) ([]byte, error) {
		now := d.now().Now
		p := &access.LoginChange{
			Token: &access.Token{
				AccessorID: d.of("a1", "a2", "a4", "a5"),
				SecretHash: []byte(d.of("s1", "s5", "s6", "s7")),
				Type:       access.TypeClient,
				Policies:   []string{d.of("p1", "p2")},
				ExpireTime: now + 1 + int64(d.upTo(3)),
			},
			Method: d.of("m1", "m2"),
			Now:    now,
		}
		if m := state.AuthMethod(tx, p.Method); m != nil {
			p.MethodIndex = m.ModifyIndex
		}
		if d.flip() {
			p.Mark = &access.LoginMark{ID: d.of("l1", "l2", "l3"), End: now + int64(d.upTo(3))}
		}
		return ACLLogin.Encode(p)
	},
	"ACLOneTime": func(d dice, _ *state.ReadTx) ([]byte, error) {
		p := &access.OneTimeChange{Use: []byte(d.of("o1", "o2")), Now: d.now().Now}
		if d.flip() {
			p.Put = &access.OneTimeToken{
				Hash:       []byte(d.of("o1", "o2")),
				Box:        []byte("b"),
				AccessorID: d.of("a1", "a2", "a3"),
				End:        p.Now + int64(d.upTo(3)),
			}
		}
		return ACLOneTime.Encode(p)
	},
}

func init() { maps.Copy(draws, loginDraws) }
