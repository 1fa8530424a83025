package redisfailures

import (
	"encoding/base64"

	"authguard/failures"
	"authguard/trusted"
	"authguard/trusted/redisplaces"
)

// name is the name of a subject's key.
func (s *Store) name(of *failures.Subject) string {
	name := s.prefix + redisplaces.Tag(trusted.Key(of.Place))
	if of.Key != of.Place {
		name += base64.RawURLEncoding.EncodeToString(of.Key[:])
	}
	return name
}

func (s *Store) names(subjects []failures.Subject) []string {
	names := make([]string, len(subjects))
	for i := range subjects {
		names[i] = s.name(&subjects[i])
	}
	return names
}
