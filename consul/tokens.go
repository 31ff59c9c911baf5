package consul

// serviceToken is the token with which a service is registered.
type serviceToken struct {
	secret Secret // "": the login is still to come, and the service is not registered before
	stale  bool   // Consul has the service with another token
}

// ExpectToken says that a service is registered with a token of its own, and not before it is there.
func (s *Syncer) ExpectToken(serviceID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.tokens[serviceID]; !known {
		s.tokens[serviceID] = serviceToken{}
	}
}

// PutToken sets the token of a service. The service is registered again with it, because Consul keeps the
// token of a registration for its own use.
func (s *Syncer) PutToken(serviceID string, token Secret) {
	s.mu.Lock()
	if s.tokens[serviceID].secret != token {
		s.tokens[serviceID] = serviceToken{secret: token, stale: true}
	}
	s.mu.Unlock()
	s.wake()
}

// DropToken forgets the token of a service that has ended. It is removed with the token of the agent.
func (s *Syncer) DropToken(serviceID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, serviceID)
}

// tokenOfService returns the token of a service. It is false for one with the token of the agent.
func (s *Syncer) tokenOfService(id string) (serviceToken, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tokens[id]
	return t, ok
}

// registered notes that Consul has a service with its token.
func (s *Syncer) registered(id string, with serviceToken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens[id].secret == with.secret && with.secret != "" {
		s.tokens[id] = serviceToken{secret: with.secret}
	}
}
