"""What every route needs: requests, responses, problems, authentication, schemas."""
