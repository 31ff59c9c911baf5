package defaults

import (
	"slices"

	"berth/structs"
)

// canonicalizeIdentities completes the identities of a task. An unnamed one is the default one, also in the
// list of the others, where clients of the dialect may have it.
func canonicalizeIdentities(t *structs.Task) {
	for _, i := range t.Identities {
		if i != nil {
			setDefault(&i.Name, structs.DefaultIdentity)
		}
	}

	isDefault := func(i *structs.WorkloadIdentity) bool { return i != nil && i.Name == structs.DefaultIdentity }
	at := slices.IndexFunc(t.Identities, isDefault)
	if at >= 0 && t.Identity == nil {
		t.Identity = t.Identities[at]
		t.Identities = slices.Delete(slices.Clone(t.Identities), at, at+1)
	}

	if len(t.Identities) == 0 {
		t.Identities = nil
	}

	if i := t.Identity; i != nil {
		setDefault(&i.Name, structs.DefaultIdentity)
		if len(i.Audience) == 0 {
			i.Audience = []string{structs.DefaultAudience}
		}

		canonicalizeIdentity(i)
	}

	for _, i := range t.Identities {
		if i != nil {
			canonicalizeIdentity(i)
		}
	}
}

// canonicalizeIdentity completes an identity that has its name. The default one needs no end: the servers
// alone take its tokens, and they know the end of the allocation.
func canonicalizeIdentity(i *structs.WorkloadIdentity) {
	setDefault(&i.ChangeMode, structs.TemplateNoop)
	if i.Name != structs.DefaultIdentity {
		setDefault(&i.TTL, structs.DefaultIdentityTTL)
	}
	if i.ChangeMode == structs.TemplateSignal {
		setDefault(&i.ChangeSignal, structs.DefaultTemplateSignal)
	}
}

// canonicalizeServiceIdentity completes the identity of a service whose name and port are known.
func canonicalizeServiceIdentity(s structs.OwnedService) {
	i := s.Identity
	if i == nil {
		return
	}

	name := "consul-service_"
	if task := s.OfferedBy(); task != "" {
		name += task + "-"
	}

	setDefault(&i.Name, name+s.Name+"-"+s.PortLabel)
	setDefault(&i.ServiceName, s.Name)
	canonicalizeIdentity(i)
}
