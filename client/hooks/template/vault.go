package template

import (
	"berth/consul/lookup"
	"berth/structs"
	"berth/vault"
)

// secrets are the functions that read from Vault, with the token of the task.
type secrets struct{ *rendering }

// ask returns the answer to a question. The task needs a token of Vault.
func (r secrets) ask(q lookup.Query) (any, error) {
	v := r.values.vault
	if v == nil {
		return nil, structs.Preconditionf("%s: the task has no token of Vault; give it a block vault", q.Kind)
	}

	err := vault.CheckPath(q.Name)
	if err != nil {
		return nil, err
	}

	q.As = r.values.task
	q.Namespace = v.Namespace
	return r.rendering.ask(q)
}

// read returns a secret, nil as long as there is no answer. With values such as "ttl=1h", they are written to
// the path, and the answer is the secret.
func (r secrets) read(path string, values ...string) (*lookup.VaultAnswer, error) {
	if path == "" {
		return nil, nil
	}

	q, err := lookup.ParseSecret(path, values)
	if err != nil {
		return nil, err
	}

	value, err := r.ask(q)
	answer, _ := value.(*lookup.VaultAnswer)
	return answer, err
}

// list returns the names of the secrets below a path.
func (r secrets) list(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}

	value, err := r.ask(lookup.ParseSecrets(path))
	names, _ := value.([]string)
	return names, err
}
