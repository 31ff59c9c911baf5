package fsm

import (
	"maps"
	"time"

	"berth/state"
	"berth/state/acls"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/login"
)

// loginDraws draws entries about few auth methods, rules and logins, so that many of them meet.
var loginDraws = map[string]func(d dice, tx *state.ReadTx) ([]byte, error){
	"ACLAuthMethodPut": func(d dice, _ *state.ReadTx) ([]byte, error) {
		m := &login.AuthMethod{
			Name:          d.of("m1", "m2", "not valid"),
			Type:          d.of(login.TypeJWT, login.TypeOIDC),
			TokenLocality: login.LocalityLocal,
			MaxTokenTTL:   login.Duration(time.Second),
			Default:       d.flip(),
			Config:        &login.AuthConfig{OIDCClientID: "c"},
		}
		if d.flip() {
			m.Sealed = &structs.Sealed{KeyID: "k1", Data: []byte("s")}
		}
		return ACLAuthMethodPut.Encode(&login.AuthMethodChange{Method: m, Now: d.now().Now})
	},
	"ACLAuthMethodDelete": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return ACLAuthMethodDelete.Encode(&login.AuthMethodDeleteRequest{Name: d.of("m1", "m2")})
	},
	"ACLBindingRulePut": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return ACLBindingRulePut.Encode(&login.BindingRuleChange{
			Rule: &login.BindingRule{
				ID:         d.of("b1", "b2"),
				AuthMethod: d.of("m1", "m2"),
				BindType:   login.BindPolicy,
				BindName:   d.of("p1", "p2", ""),
			},
			Now: d.now().Now,
		})
	},
	"ACLBindingRuleDelete": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return ACLBindingRuleDelete.Encode(&login.BindingRuleDeleteRequest{ID: d.of("b1", "b2")})
	},
	"ACLLogin": func(d dice, tx *state.ReadTx) ([]byte, error) {
		now := d.now().Now
		p := &login.LoginChange{
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
		if m := acls.AuthMethod(tx, p.Method); m != nil {
			p.MethodIndex = m.ModifyIndex
		}
		if d.flip() {
			p.Mark = &login.LoginMark{ID: d.of("l1", "l2", "l3"), End: now + int64(d.upTo(3))}
		}
		return ACLLogin.Encode(p)
	},
	"ACLOneTime": func(d dice, _ *state.ReadTx) ([]byte, error) {
		p := &login.OneTimeChange{Use: []byte(d.of("o1", "o2")), Now: d.now().Now}
		if d.flip() {
			p.Put = &login.OneTimeToken{
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
