package certificate

import (
	"context"
	"strings"
	"time"

	"berth/api/operator"
	"berth/api/show"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/cluster"
)

// shownID is the number of digits of an authority's ID in texts. Commands take each unique prefix.
const shownID = 16

var listAuthoritiesCommand = command.Command{
	Name:     "list",
	Synopsis: "List the authorities that the machines trust",
	Help: `
The authority that signs comes first, then those that it has replaced. With
-json the list has their certificates.`,
	Renders: true,
	Run:     listAuthorities,
	Examples: "berth tls ca list\n" +
		"berth tls ca list -json",
}

var replaceAuthorityCommand = command.Command{
	Name:     "replace",
	Synopsis: "Replace the certificate authority of the cluster",
	Help: `
The servers make a new authority, which signs at once. Agents with tls.renew
get new certificates by themselves within a lease. The former authority is
trusted for 30 days: machines that are off, join tokens and the certificates
of operators stay valid for that time.

The servers must be the authority ("berth tls init").`,
	Acts:     true,
	Run:      replaceAuthority,
	Examples: "berth tls ca replace",
}

var removeAuthorityCommand = command.Command{
	Name:     "remove",
	Args:     "<id>",
	Synopsis: "End the trust in a retired authority",
	Help: `
For an authority whose key is stolen: replace it, wait until the agents have
new certificates, and remove it. Machines and operators whose certificates are
of it are rejected from then on. Such a machine needs a new join token, and so
does one that was off since the replacement. Authorities before it are
removed, too, because they have signed for it. Join tokens that name one of
them are void, and the answer has their number.

The ID may be shortened to a unique prefix.`,
	Acts:  true,
	Flags: []command.Flag{{Name: "yes", Usage: "Do not ask"}},
	Run:   removeAuthority,
	Examples: "berth tls ca remove 2f6f0ea1c3a9\n" +
		"berth tls ca remove 2f6f0ea1c3a9 -yes",
}

// listAuthorities shows the authorities that the cluster trusts, and which of them signs.
func listAuthorities(ctx context.Context, c *command.Call) error {
	all, _, err := operator.Authorities(ctx, c.API, nil)
	if err != nil {
		return err
	}

	return c.Show(all, func() error {
		var rows command.Grid
		for _, a := range all {
			status := "signs"
			if a.RetireTime != 0 {
				status = "retired"
			}
			rows.AddRow(shortAuthority(a.ID), a.Subject, status,
				show.Time(time.Unix(0, a.CreateTime)),
				show.Time(time.Unix(0, a.TrustedUntil)))
		}
		c.Table("ID|Subject|Status|Created|Trusted until", rows)
		return nil
	})
}

func shortAuthority(id string) string { return id[:min(len(id), shownID)] }

// replaceAuthority waits for the new authority alone. The agents renew their certificates by themselves.
func replaceAuthority(ctx context.Context, c *command.Call) error {
	answer, err := operator.ReplaceAuthority(ctx, c.API)
	if err != nil {
		return err
	}

	c.Printf("The authority %s signs. The former one, %s, is trusted until %s.\n", shortAuthority(answer.ID),
		shortAuthority(answer.FormerID), show.Time(time.Unix(0, answer.TrustedUntil)))
	c.Printf("Agents with tls.renew get new certificates within a lease; others need the new authority in\n")
	c.Printf("their ca_file, and a new certificate. `berth tls ca list` shows the authorities, and its\n")
	c.Printf("-json their certificates for ca_file and BERTH_CACERT.\n")
	return c.WriteOutcome(answer)
}

// removeAuthority asks first, because each certificate of the authority is rejected from then on. It also
// removes the authorities before the one that is named.
func removeAuthority(ctx context.Context, c *command.Call) error {
	all, _, err := operator.Authorities(ctx, c.API, nil)
	if err != nil {
		return err
	}

	i, err := findAuthority(all, c.Arg(0))
	if err != nil {
		return err
	}

	for _, a := range all[i:] {
		c.Printf("The authority %s (%s) is removed.\n", shortAuthority(a.ID), a.Subject)
	}

	c.Printf("Machines and operators whose certificates are of it are rejected from then on, and machines\n")
	c.Printf("that trust no newer one reject the servers. They need new join tokens, and those that name it\n")
	c.Printf("are void.\n")
	if !c.Bool("yes") {
		err = command.Confirm(c, "Remove", "-yes")
	}
	if err != nil {
		return err
	}
	answer, err := operator.RemoveAuthority(ctx, c.API, all[i].ID)
	if err != nil {
		return err
	}
	outcome := map[string]any{"ID": all[i].ID, "JoinTokens": answer.JoinTokens}
	return c.Report(outcome, "The authority %s is no longer trusted; void join tokens: %d",
		shortAuthority(all[i].ID), answer.JoinTokens)
}

// findAuthority returns the place of the authority whose ID begins with a prefix.
func findAuthority(all []*cluster.AuthorityStub, prefix string) (at int, err error) {
	found := 0
	for i, a := range all {
		if strings.HasPrefix(a.ID, prefix) {
			found++
			at = i
		}
	}

	switch {
	case found == 0:
		return 0, structs.NotFoundf("there is no authority %s: see `berth tls ca list`", prefix)
	case found > 1:
		return 0, structs.Invalidf("%d authorities begin with %s: type more of the ID", found, prefix)
	case all[at].RetireTime == 0:
		return 0, structs.Preconditionf("the authority %s signs: replace it first, with `berth tls ca replace`",
			shortAuthority(all[at].ID))
	}

	return at, nil
}
